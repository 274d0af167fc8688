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
complete -c hostel -n "__fish_hostel_needs_command" -f -a "ps" -d 'List processes'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "logs" -d 'Print what a process has printed'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "attach" -d 'Connect this terminal to a process: what it printed, what it prints, and its stdin'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "kill" -d 'Signal a process and everything it started'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "doctor" -d 'Check this house and this machine for trouble'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "df" -d 'Show how much disk the journals use'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "gc" -d 'Remove journals of exited processes that are past their time'
complete -c hostel -n "__fish_hostel_needs_command" -f -a "link" -d 'Make the symlinks by which this program takes other names'
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
complete -c hostel -n "__fish_hostel_using_subcommand run" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -s a -l all -d 'Also those that were closed'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -f -a "list" -d 'List sessions'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -f -a "show" -d 'Show one session: its agent, its state, its latest messages'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -f -a "interrupt" -d 'Stop the running turn; prompts that wait come next'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -f -a "close" -d 'Close sessions: their agents end, their history stays, a prompt opens them again'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -f -a "delete" -d 'Delete sessions with all their history; it cannot be brought back'
complete -c hostel -n "__fish_hostel_using_subcommand sessions; and not __fish_seen_subcommand_from list show interrupt close delete export" -f -a "export" -d 'Write a transcript: prompts, answers, tool calls, costs'
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
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l passphrase-fd -d 'Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l always -d 'This tool for the rest of the session'
complete -c hostel -n "__fish_hostel_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l privileged -d 'Yes, also though it runs as root'
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
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -f -a "set" -d 'Set the passphrase, or change it'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -f -a "status" -d 'Say whether a passphrase is set'
complete -c hostel -n "__fish_hostel_using_subcommand approver; and not __fish_seen_subcommand_from set status clear" -f -a "clear" -d 'Remove the passphrase: nothing can be answered from `hostel approvals` any more'
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
complete -c hostel -n "__fish_hostel_using_subcommand audit; and not __fish_seen_subcommand_from show verify" -f -a "verify" -d 'Check every digest of the record; exits with 1 if something was changed, and says where'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l since -d 'Only what came after this entry' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -s f -l follow -d 'Go on with what is added, until Ctrl-C'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand audit; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and not __fish_seen_subcommand_from install uninstall" -l no-start -d 'Do not start the house when it is not up'
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
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l dry-run -d 'Say what would be written, write nothing'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand mcp; and __fish_seen_subcommand_from uninstall" -s h -l help -d 'Print help'
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
complete -c hostel -n "__fish_hostel_using_subcommand gc" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand gc" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand link" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand link" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand link" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand link" -l force -d 'Replace what is there under those names'
complete -c hostel -n "__fish_hostel_using_subcommand link" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand link" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -f -a "status" -d 'Show the keeper\'s pid, build and children'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and not __fish_seen_subcommand_from status upgrade" -f -a "upgrade" -d 'Replace the keeper with this program\'s build; its processes notice nothing'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l home -d 'The house\'s directory [default: ~/.hostel]' -r -F
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l house -d 'Ask only this house: `home`, or the name of a folder under `as/`' -r
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l color -d 'When to use colour; `auto` is on a terminal, unless NO_COLOR is set' -r -f -a "auto\t''
always\t''
never\t''"
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -l json -d 'Print data as JSON instead of text for people'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c hostel -n "__fish_hostel_using_subcommand keeper; and __fish_seen_subcommand_from upgrade" -l program -d 'The program to become, instead of this one' -r -F
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
