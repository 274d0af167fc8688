# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_hostel_global_optspecs
    string join \n json home= house= color= h/help V/version
end

function __fish_hostel_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_hostel_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_hostel_using_subcommand
    set -l cmd (__fish_hostel_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c hostel -n "__fish_hostel_needs_command" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_needs_command" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_needs_command" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_needs_command" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hostel -n "__fish_hostel_needs_command" -s V -l version -d 'Print version'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "up" -d 'Start the house: keeper, daemon and every door'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "down" -d 'End the house: daemon, keeper and every process'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "run" -d 'Host a command, or put a prompt to an agent, and stream what comes'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "sessions" -d 'List the agents\' sessions, look at one, close, delete or export it'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "send" -d 'Put a prompt to a session'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "watch" -d 'Show what a session has said and done, and go on as it does'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "approvals" -d 'Read what agents and programs ask permission for, and answer'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "approver" -d 'Set, check or remove the passphrase that answers to requests take'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "audit" -d 'Show or verify the record of requests, decisions and what came of them'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "mcp" -d 'Serve the house\'s tools to an agent that speaks MCP, on standard input and output'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "mesh" -d 'Talk with other hosts: meshes, messages, topics, files'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "broker" -d 'Look after the embedded broker, which carries the messages of meshes'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "backup" -d 'Write the whole house and its meshes into an encrypted file'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "restore" -d 'Put back a house that `hostel backup` has written'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "ps" -d 'List processes'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "logs" -d 'Print what a process has printed'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "attach" -d 'Connect this terminal to a process: what it printed, what it prints, and its stdin'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "kill" -d 'Signal a process and everything it started'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "doctor" -d 'Check this house and this machine for trouble'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "df" -d 'Show how much disk the journals use'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "gc" -d 'Remove journals of exited processes that are past their time, at once'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "journal" -d 'Check journals for damage'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "link" -d 'Make the symlinks by which this program takes other names'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "service" -d 'Start the house at boot: install it as a service, or take it out again'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "keeper" -d 'Look at the keeper, or replace it in place'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "config" -d 'Show or check the configuration'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "man" -d 'Print the manual page, or write all of them into a directory'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "as" -d 'Act as another program'
complete -c hostel -n "__fish_hostel_using_subcommand up" -l set -d 'Override a setting, for example `journal.quota=5GiB`; may be repeated' -r
complete -c hostel -n "__fish_hostel_using_subcommand up" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand up" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand up" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand up" -l foreground -d 'Stay in this terminal instead of going into the background'
complete -c hostel -n "__fish_hostel_using_subcommand up" -l launched -d 'How the background process knows that it is one'
complete -c hostel -n "__fish_hostel_using_subcommand up" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand up" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand down" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand down" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand down" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand down" -l keep -d 'End only the daemon; keeper and processes run on'
complete -c hostel -n "__fish_hostel_using_subcommand down" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand down" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand run" -l name -d 'Call the process or the session this' -r
complete -c hostel -n "__fish_hostel_using_subcommand run" -l cwd -d 'Start in this directory' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand run" -l agent -d 'The agent to ask' -r
complete -c hostel -n "__fish_hostel_using_subcommand run" -l mode -d 'What the agent may do: everything (auto), edits (code), nothing that writes (plan), or nothing without asking (ask)' -r -f -a "auto\t''
code\t''
plan\t''
ask\t''"
complete -c hostel -n "__fish_hostel_using_subcommand run" -l model -d 'The model the agent is to use' -r
complete -c hostel -n "__fish_hostel_using_subcommand run" -l mesh -d 'What becomes of messages from a mesh for the session: they lie in its mailbox (off), you are asked about each (ask), or each is put to the agent (on)' -r -f -a "off\t'They lie in the mailbox'
ask\t'A person is asked about each'
on\t'Each is put to the agent'"
complete -c hostel -n "__fish_hostel_using_subcommand run" -l env -d 'Set a variable for the command; may be repeated' -r
complete -c hostel -n "__fish_hostel_using_subcommand run" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand run" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand run" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand run" -s d -l detach -d 'Return at once and leave it to the house'
complete -c hostel -n "__fish_hostel_using_subcommand run" -l no-stdin -d 'Give the command an empty stdin instead of ours'
complete -c hostel -n "__fish_hostel_using_subcommand run" -l replace -d 'End a running process of the same name first'
complete -c hostel -n "__fish_hostel_using_subcommand run" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -s a -l all -d 'Also those that were closed'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "list" -d 'List sessions'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "show" -d 'Show one session: its agent, its state, its latest messages'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "interrupt" -d 'Stop the running turn; prompts that wait come next'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "close" -d 'Close sessions: their agents end, their history stays, a prompt opens them again'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "delete" -d 'Delete sessions with all their history; it cannot be brought back'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "mesh" -d 'Show or say what becomes of mesh messages for a session: `HOST/NAME` is its address'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "mode" -d 'Show or set what a session\'s agent may do without asking, from its next turn on'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete mesh mode export" -f -a "export" -d 'Write a transcript: prompts, answers, tool calls, costs'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from list" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from list" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from list" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from list" -s a -l all -d 'Also those that were closed'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from list" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from show" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from show" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from show" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from show" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from interrupt" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from interrupt" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from interrupt" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from interrupt" -s a -l all -d 'Also take back every prompt that waits'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from interrupt" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from interrupt" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from close" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from close" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from close" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from close" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from close" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from delete" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from delete" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from delete" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from delete" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mesh" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mesh" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mesh" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mesh" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mesh" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mode" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mode" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mode" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mode" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mode" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from mode" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -l format -d '`markdown` for people, `jsonl` with every numbered event' -r -f -a "markdown\t''
jsonl\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -s o -l out -d 'Write to this file instead of standard output' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand send" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand send" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand send" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand send" -s w -l wait -d 'Stream the turn and wait for its end; the exit code is as with `hostel run`'
complete -c hostel -n "__fish_hostel_using_subcommand send" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand send" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand watch" -l since -d 'Only what came after this event' -r
complete -c hostel -n "__fish_hostel_using_subcommand watch" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand watch" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand watch" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand watch" -l no-follow -d 'End with what is there now'
complete -c hostel -n "__fish_hostel_using_subcommand watch" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand watch" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "list" -d 'List what waits for an answer'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "show" -d 'Show one in full: who asks, why, and exactly what'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "approve" -d 'Allow what is asked for'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "deny" -d 'Refuse what is asked for; an agent goes on without'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "watch" -d 'Print each request as it comes, and how it was settled'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "why" -d 'Explain which rules a request met, and what decided'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "grants" -d 'List the grants that are in force'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny watch why grants revoke" -f -a "revoke" -d 'End a grant'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from list" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from list" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from list" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from list" -s a -l all -d 'Also what was settled'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from list" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from show" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from show" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from show" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from show" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l for -d 'Also allow the same again for this long, at most 24h [default: 10m, with any of the following]' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l count -d 'Also allow the same again, this many times at most' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l scope -d 'Whom to allow the same again [default: session]' -r -f -a "session\t'The session that asked'
requester\t'The same tree of processes'"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l argv -d 'Allow not only the same, but commands whose words fit these patterns: one for each word, `**` for the rest' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l digest -d 'Approve only the request with this digest; its first 12 or more characters are enough' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l always -d 'This tool for the rest of the session'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l changeable -d 'Confirm that others can change what would run as root'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l privileged -d 'Yes, also though it runs as root'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l yes -d 'Approve it whatever it is, though nobody has read it'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l reason -d 'Told to the agent' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from watch" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from watch" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from watch" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from watch" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from why" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from why" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from why" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from why" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from why" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from grants" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from grants" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from grants" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from grants" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from grants" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -f -a "set" -d 'Set the passphrase, or change it'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -f -a "status" -d 'Say whether a passphrase is set, and what waits for the approver\'s word'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -f -a "confirm" -d 'Put settings in force that ask less of people than before'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status confirm clear" -f -a "clear" -d 'Remove the passphrase: nothing can be answered from `hostel approvals` any more'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -l old-passphrase-fd -d 'Read the passphrase in force from this descriptor' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from confirm" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from confirm" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from confirm" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from confirm" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from confirm" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from confirm" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from clear" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from clear" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from clear" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from clear" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from clear" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and __fish_seen_subcommand_from clear" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -f -a "show" -d 'Print the record, oldest first'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -f -a "verify" -d 'Check the record: digests, signatures, and that whatever was started was decided; exits with 1 if something is wrong'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l since -d 'Only what came after this entry' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -s f -l follow -d 'Go on with what is added, until Ctrl-C'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l endorsements -d 'Check endorsements as well, with the approver\'s passphrase'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l no-start -d 'Do not start the house when it is not up'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l channel -d 'Push messages of the mesh to the client even if it did not say that it takes them'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -f -a "install" -d 'Enter the server into an agent\'s own configuration'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -f -a "uninstall" -d 'Take the server out of an agent\'s configuration again'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l scope -d 'For everything you do (user), for this directory (project), or for this directory and you alone (local: only claude)' -r -f -a "user\t''
project\t''
local\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l name -d 'The name it goes by there' -r
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l channel -d 'Push messages of the mesh to the client, which does not say by itself that it takes them'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l dry-run -d 'Say what would be written, write nothing'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l scope -d 'For everything you do (user), for this directory (project), or for this directory and you alone (local: only claude)' -r -f -a "user\t''
project\t''
local\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l name -d 'The name it goes by there' -r
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l channel -d 'Push messages of the mesh to the client, which does not say by itself that it takes them'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l dry-run -d 'Say what would be written, write nothing'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "create" -d 'Make a mesh, join it, and print an invite for the first peer'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "join" -d 'Join a mesh by its invite, and start its daemon'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "list" -d 'List the meshes that are joined here'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "leave" -d 'Leave a mesh: tell the broker, stop the daemon, forget the keys'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "invite" -d 'Make, list and take back invites'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "member" -d 'List members, and revoke, ban, kick or disconnect them'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "audit" -d 'Show what the broker has recorded: joins, revocations, suspected clones'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "peers" -d 'List who is in the mesh and who is connected'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "peer" -d 'List peers, and say what one may do to this host'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "send" -d 'Send a message to a peer, a topic, a group or everybody'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "post" -d 'Post to a topic'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "subscribe" -d 'Receive a topic\'s posts from now on; makes a topic that is not there'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "unsubscribe" -d 'Stop receiving a topic\'s posts'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "topics" -d 'List topics'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "topic" -d 'Topics under their longer names'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "inbox" -d 'Show what was received, newest first'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "search" -d 'Search what was received'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "file" -d 'Share files, fetch them, list them'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "events" -d 'Print events as they come'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "state" -d 'Read and write values that all members share'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "task" -d 'Make tasks and take them on, each by exactly one'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "profile" -d 'Say what this host is doing, for its peers'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "rename" -d 'Take another name in the mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "verify" -d 'Print the safety number of a peer, to compare over another channel'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "launch" -d 'Launch an agent as a session of its own in the mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "install" -d 'Set this host up: the mesh\'s tools for its agents, and the daemon as a service'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and not __fish_seen_subcommand_from create join list leave invite member audit peers peer send post subscribe unsubscribe topics topic inbox search file events state task profile rename verify launch install daemon" -f -a "daemon" -d 'Look after the mesh daemon: one process per mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l name -d 'What this host is called in it [default: the host\'s name]' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l listen -d 'Where the broker listens for other machines, with TLS' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l url -d 'How other machines reach the broker: wss://HOST[:PORT]/ws' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l broker -d 'Use a broker that runs elsewhere instead of the embedded one' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l admin-token-file -d 'The file that holds that broker\'s admin token' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l cert -d 'The SHA-256 digest of that broker\'s certificate, if it has one of its own' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l no-start -d 'Start neither broker nor daemon'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l name -d 'What this host is called in the mesh [default: the host\'s name]' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l no-start -d 'Do not start the mesh daemon'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from join" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from list" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from list" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from list" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from list" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from list" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -l local -d 'Forget the mesh here without telling the broker'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from leave" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l uses -d 'How many may join by it' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l expires -d 'How long it lasts' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l role -d 'What those who join may do' -r -f -a "member\t''
admin\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -f -a "create" -d 'Make an invite and print its link'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -f -a "list" -d 'List invites'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from invite" -f -a "revoke" -d 'Take an invite back'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -f -a "list" -d 'List every member'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -f -a "revoke" -d 'Take a member\'s key out of the mesh for good'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -f -a "kick" -d 'Close a member\'s connections; its sessions end, its daemon comes back'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -f -a "ban" -d 'The same as revoke'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -f -a "unban" -d 'Take a revocation back'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from member" -f -a "disconnect" -d 'Close a member\'s connections; it comes back by itself'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l after -d 'Only records after this number' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l limit -d 'At most this many' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from audit" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -s a -l all -d 'Also members that are not connected'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peers" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -f -a "list" -d 'List who is in the mesh and who is connected'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -f -a "block" -d 'Hear nothing of a peer any more'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -f -a "unblock" -d 'Take a block or a grant back: the peer may do what everybody may'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -f -a "grant" -d 'Let a peer do some things and no others'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from peer" -f -a "grants" -d 'List the peers for whom something was set'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l priority -d 'How urgent it is' -r -f -a "now\t''
next\t''
low\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l reply-to -d 'The message this one answers' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l meta -d 'Data for programs, as a JSON object' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l idempotency-key -d 'An id of your own: the same one sent twice is sent once' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from send" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l mention -d 'Somebody who should look; may be repeated' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l priority -d 'How urgent it is' -r -f -a "now\t''
next\t''
low\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l reply-to -d 'The message this one answers' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l meta -d 'Data for programs, as a JSON object' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l idempotency-key -d 'An id of your own: the same one sent twice is sent once' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from post" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from subscribe" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from subscribe" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from subscribe" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from subscribe" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from subscribe" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from subscribe" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from unsubscribe" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from unsubscribe" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from unsubscribe" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from unsubscribe" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from unsubscribe" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from unsubscribe" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topics" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topics" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topics" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topics" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topics" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topics" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -f -a "list" -d 'List topics'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -f -a "post" -d 'Post to a topic'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -f -a "subscribe" -d 'Receive a topic\'s posts from now on'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from topic" -f -a "unsubscribe" -d 'Stop receiving a topic\'s posts'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l limit -d 'At most this many' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l since -d 'Only what was received at this time or later (RFC 3339)' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l topic -d 'Only this topic' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l from -d 'Only from this peer' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l unread -d 'Only what was not seen yet'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l keep-unread -d 'Leave what is shown unread'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from inbox" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -l limit -d 'At most this many' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from search" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -f -a "share" -d 'Share a file as it is now'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -f -a "get" -d 'Fetch a file'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from file" -f -a "list" -d 'List the files one may fetch'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l only -d 'Only these events, separated by commas' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l topic -d 'Only messages of this topic' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l after -d 'Go on after this event' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from events" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -f -a "set" -d 'Write a value'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -f -a "get" -d 'Print a value'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -f -a "list" -d 'List keys with their versions'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -f -a "watch" -d 'Print changes as they come'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -f -a "delete" -d 'Remove a key'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from state" -f -a "rm" -d 'Remove a key'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -f -a "create" -d 'Make a task'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -f -a "claim" -d 'Take a task on: exactly one who tries gets it'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -f -a "complete" -d 'Say that a task one has claimed is done'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -f -a "release" -d 'Let a task go that one has claimed'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -f -a "list" -d 'List tasks, the oldest first'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from task" -f -a "show" -d 'Show a task with all of its content'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l summary -d 'What this host is doing' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l status -d 'Whether it may be disturbed' -r -f -a "idle\t''
working\t''
dnd\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l visible -d 'Whether it is listed' -r -f -a "true\t''
false\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l title -d 'A title' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l bio -d 'A few words about it' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from profile" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from rename" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from rename" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from rename" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from rename" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from rename" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -l trust -d 'Accept the key that the broker names for this peer; compare the number first'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -s p -l print -d 'Ask only this, print the answer, and end; `-` reads it from standard input' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l name -d 'What the session is called in the mesh [default: the agent and four digits]' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l agent -d 'The agent to launch' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l mode -d 'What the agent may do: everything (auto), edits (code), nothing that writes (plan), or nothing without asking (ask)' -r -f -a "auto\t''
code\t''
plan\t''
ask\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l model -d 'The model the agent is to use' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l messages -d 'What becomes of messages from the mesh for the session: they lie in its mailbox (off), you are asked about each (ask), or each is put to the agent (on) [default: `mesh` below [sessions] in hostel.toml, else off]' -r -f -a "off\t'They lie in the mailbox'
ask\t'A person is asked about each'
on\t'Each is put to the agent'"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l cwd -d 'Where the agent works' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l role -d 'What the session is there for, for peers' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l group -d 'A group the session is in; may be repeated' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l no-start -d 'Start neither house nor mesh daemon'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from launch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l service -d 'Install the daemon as a service without asking'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l no-service -d 'Install no service, and do not ask'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l no-mcp -d 'Leave the configuration of agents alone'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l allow-ci-persistent -d 'Install the service although this looks like a build job'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -l mesh -d 'Which mesh; needed only where several are joined' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "up" -d 'Start the daemon of a mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "start" -d 'Start the daemon of a mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "down" -d 'Stop the daemon of a mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "stop" -d 'Stop the daemon of a mesh'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "status" -d 'Show every daemon: connected, queue, lag'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "ps" -d 'Show every daemon: connected, queue, lag'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "version" -d 'Show the daemon\'s version'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "restart" -d 'Stop the daemon and start it again with the flags it had'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "logs" -d 'Print the daemon\'s log'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "search" -d 'Search what was received'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "rotate-token" -d 'Replace the token for loopback HTTP; the old one is good for another minute'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "rotate-keypair" -d 'Replace the member\'s key; the daemon goes on and nothing on its way is lost'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "accept-host" -d 'Say that this machine is the daemon\'s home from now on'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "reload" -d 'Read config.toml again, without losing the connection'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "backup" -d 'Write this host\'s identity in a mesh into an encrypted file'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "restore" -d 'Put an identity back that `backup` has written'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "uninstall" -d 'Leave the mesh and remove everything of it from this host'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "reset" -d 'Forget messages and other local state; stay a member'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "recover" -d 'Look for damaged files and go on with what is left'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "hooks" -d 'Look at this mesh\'s hooks: scripts that run when something happens'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "outbox" -d 'Look at what waits to be sent, or did not go out'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "install-service" -d 'Start the daemon at boot, and again when it fails'
complete -c hostel -n "__fish_hostel_using_subcommand mesh; and __fish_seen_subcommand_from daemon" -f -a "uninstall-service" -d 'Do not start the daemon at boot any more, and stop it'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -f -a "up" -d 'Start the broker that meshes of this host use'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -f -a "down" -d 'Stop it; mesh daemons keep what they have to send and come back to it'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and not __fish_seen_subcommand_from up down status" -f -a "status" -d 'Show whether it runs and where it listens'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l listen -d 'Where to listen: on loopback instead of a port of the system\'s choice, elsewhere in addition and with TLS' -r
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l url -d 'How other machines reach it: wss://HOST[:PORT]/ws' -r
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l foreground -d 'Stay in this terminal'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l launched -d 'How the background process knows that it is one'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from up" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from down" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from down" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from down" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from down" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from down" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand broker; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand backup" -l out -d 'The file to write; one that is there is replaced' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand backup" -l passphrase-fd -d 'Read the passphrase from this descriptor instead of asking for it' -r
complete -c hostel -n "__fish_hostel_using_subcommand backup" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand backup" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand backup" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand backup" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand backup" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l in -d 'The file that `backup` wrote' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l passphrase-fd -d 'Read the passphrase from this descriptor instead of asking for it' -r
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l no-meshes -d 'Leave out the meshes: only the house'
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l force -d 'Put it in the place of a house, or of meshes, that are here; those are kept beside'
complete -c hostel -n "__fish_hostel_using_subcommand restore" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand restore" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand ps" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand ps" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand ps" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand ps" -s a -l all -d 'Also those that have exited'
complete -c hostel -n "__fish_hostel_using_subcommand ps" -l tree -d 'Under each process, everything it started'
complete -c hostel -n "__fish_hostel_using_subcommand ps" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand ps" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand logs" -l since-seq -d 'Only what came after this sequence number' -r
complete -c hostel -n "__fish_hostel_using_subcommand logs" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand logs" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand logs" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand logs" -s f -l follow -d 'Go on printing as the process does'
complete -c hostel -n "__fish_hostel_using_subcommand logs" -s t -l timestamps -d 'Start each line with the time it was printed'
complete -c hostel -n "__fish_hostel_using_subcommand logs" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand logs" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l no-replay -d 'Skip what was printed before now'
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l no-stdin -d 'Only watch; keep our stdin to ourselves'
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l close-stdin -d 'Close the process\'s stdin when ours ends'
complete -c hostel -n "__fish_hostel_using_subcommand attach" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand attach" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand kill" -s s -l signal -d 'The signal to send: TERM, INT, HUP, KILL, QUIT, USR1, USR2' -r
complete -c hostel -n "__fish_hostel_using_subcommand kill" -s w -l wait -d 'Wait this long for the end, then send KILL' -r
complete -c hostel -n "__fish_hostel_using_subcommand kill" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand kill" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand kill" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand kill" -l no-escalate -d 'With --wait: leave a process that does not end alone'
complete -c hostel -n "__fish_hostel_using_subcommand kill" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand kill" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand doctor" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand doctor" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand doctor" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand doctor" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand df" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand df" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand df" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand df" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand df" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l dry-run -d 'Say what would go, remove nothing'
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l all -d 'Every exited process, however recent'
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l yes -d 'Remove without asking'
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand gc" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand journal; and not __fish_seen_subcommand_from verify" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand journal; and not __fish_seen_subcommand_from verify" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand journal; and not __fish_seen_subcommand_from verify" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand journal; and not __fish_seen_subcommand_from verify" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand journal; and not __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand journal; and not __fish_seen_subcommand_from verify" -f -a "verify" -d 'Read journals from the first byte to the last; exits with 1 if something is damaged'
complete -c hostel -n "__fish_hostel_using_subcommand journal; and __fish_seen_subcommand_from verify" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand journal; and __fish_seen_subcommand_from verify" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand journal; and __fish_seen_subcommand_from verify" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand journal; and __fish_seen_subcommand_from verify" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand journal; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand link" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand link" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand link" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand link" -l force -d 'Replace what is there under those names'
complete -c hostel -n "__fish_hostel_using_subcommand link" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand link" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -f -a "install" -d 'Start the house at boot, and again when its daemon fails'
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -f -a "uninstall" -d 'Do not start the house at boot any more'
complete -c hostel -n "__fish_hostel_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status" -f -a "status" -d 'Show whether the house is a service, and how it stands'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l dir -d 'Where the file is, instead of where the supervisor looks; nothing is started or stopped then' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l kind -d 'The supervisor [default: the one of this system]' -r -f -a "systemd\t''
launchd\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l user -d 'For you alone, without root (the default)'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l system -d 'For the machine: runs without anybody being logged in; takes root'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l print -d 'Print the file, install nothing'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l no-start -d 'Start it at the next boot or login only'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l allow-ci-persistent -d 'Install it although this looks like a build job'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l dir -d 'Where the file is, instead of where the supervisor looks; nothing is started or stopped then' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l kind -d 'The supervisor [default: the one of this system]' -r -f -a "systemd\t''
launchd\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l user -d 'For you alone, without root (the default)'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l system -d 'For the machine: runs without anybody being logged in; takes root'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from uninstall" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l dir -d 'Where the file is, instead of where the supervisor looks; nothing is started or stopped then' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l kind -d 'The supervisor [default: the one of this system]' -r -f -a "systemd\t''
launchd\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l user -d 'For you alone, without root (the default)'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l system -d 'For the machine: runs without anybody being logged in; takes root'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand service; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -f -a "status" -d 'Show the keeper\'s pid, build and children'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -f -a "upgrade" -d 'Replace the keeper with the daemon\'s build; its processes notice nothing'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from upgrade" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from upgrade" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from upgrade" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from upgrade" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from upgrade" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -f -a "show" -d 'Print every setting, its value and where it comes from'
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -f -a "path" -d 'Print where the configuration file is looked for'
complete -c hostel -n "__fish_hostel_using_subcommand config; and not __fish_seen_subcommand_from show path check" -f -a "check" -d 'Read a configuration file and say what is wrong with it'
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from show" -l set -d 'Override a setting, for example `journal.quota=5GiB`; may be repeated' -r
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from show" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from show" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from show" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from show" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from path" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from path" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from path" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from path" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from path" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from check" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from check" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from check" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from check" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand completions" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand completions" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand completions" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand completions" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand completions" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand man" -l out -d 'Write hostel.1 and a page for each verb into this directory' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand man" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand man" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand man" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand man" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand man" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand as" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand as" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand as" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand as" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand as" -s h -l help -d 'Print help'
