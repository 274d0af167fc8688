//! `hostel ps`: the processes of every house.

use std::process::ExitCode;

use hostel_doors::native::client::Client;
use hostel_doors::native::protocol::ProcessInfo;
use hostel_doors::native::protocol::ProcessList;
use hostel_doors::native::protocol::ProcessTree;
use hostel_doors::native::protocol::State;
use hostel_doors::native::protocol::Target;
use hostel_doors::native::protocol::TreeMember;
use hostel_doors::native::protocol::code;
use serde_json::json;

use super::Context;
use super::now_ns;
use crate::cli::Ps;
use crate::error::CommandError;
use crate::session::short;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

/// How much of a command a table shows.
const COMMAND_WIDTH: usize = 60;

/// A process with the house it lives in and, if asked for, its tree.
struct Row {
    house: String,
    process: ProcessInfo,
    tree: Option<ProcessTree>,
}

pub(super) async fn run(context: &Context<'_>, arguments: &Ps) -> Result<ExitCode, CommandError> {
    let mut rows = Vec::new();
    let mut strays = Vec::new();
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    for (house, mut client) in live {
        let list: ProcessList = client.call("process/list", &json!({})).await?;
        for process in list.processes {
            if !arguments.all && !process.state.alive() {
                continue;
            }
            let tree = match arguments.tree && process.state.alive() {
                true => tree(&mut client, &process.id).await?,
                false => None,
            };
            rows.push(Row { house: house.label.clone(), process, tree });
        }
        if arguments.tree {
            match client.call::<ProcessTree>("process/strays", &json!({})).await {
                Ok(found) => strays.extend(found.processes),
                // A daemon older than this program does not know the question.
                Err(error) if error.code() == Some(code::METHOD) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let ui = context.ui;
    if ui.json() {
        let processes: Result<Vec<serde_json::Value>, CommandError> = rows.iter().map(to_json).collect();
        let mut answer = json!({"processes": processes?});
        if arguments.tree {
            answer["strays"] = json!(strays);
        }
        ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() && strays.is_empty() {
        ui.note(if arguments.all {
            "nothing has run here yet; host something with `hostel run -- COMMAND`"
        } else {
            "nothing is running; `hostel ps -a` shows what has exited"
        });
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = vec!["NAME", "ID", ">PID", "STATE", "?STARTED", "?OUTPUT", "?DOOR", "COMMAND"];
    if several {
        columns.insert(0, "HOUSE");
    }
    let mut table = Table::new(&columns);
    let now = now_ns();
    for row in &rows {
        let process = &row.process;
        let (paint, state) = state(process);
        let mut cells = vec![
            (Paint::Bold, process.name.clone()),
            (Paint::Dim, short(&process.id).to_owned()),
            (Paint::Plain, process.pid.to_string()),
            (paint, state),
            (Paint::Plain, text::ago(process.started_ns, now)),
            (Paint::Plain, text::size(process.bytes)),
            (Paint::Plain, process.door.clone()),
            (Paint::Plain, text::cut(&process.command, COMMAND_WIDTH).into_owned()),
        ];
        if several {
            cells.insert(0, (Paint::Dim, row.house.clone()));
        }
        table.row(cells);
        let members = row.tree.iter().flat_map(|tree| &tree.processes);
        for member in members.filter(|member| member.relation != "leader") {
            table.row(member_cells(member, now, several));
        }
    }
    for stray in &strays {
        table.row(member_cells(stray, now, several));
    }
    ui.line(&table.render(ui))?;
    if rows.iter().any(|row| row.tree.as_ref().is_some_and(|tree| tree.partial)) {
        ui.note("partial: this system does not show every process");
    }
    Ok(ExitCode::SUCCESS)
}

fn member_cells(member: &TreeMember, now: u64, several: bool) -> Vec<(Paint, String)> {
    let relation = match &member.started_by {
        Some(name) => format!("  └ {} of {name}", member.relation),
        None => format!("  └ {}", member.relation),
    };
    let mut cells = vec![
        (Paint::Dim, relation),
        (Paint::Plain, String::new()),
        (Paint::Plain, member.pid.to_string()),
        (Paint::Plain, String::new()),
        (Paint::Plain, text::ago(now.saturating_sub(member.age_s.saturating_mul(1_000_000_000)), now)),
        (Paint::Plain, String::new()),
        (Paint::Plain, String::new()),
        (Paint::Plain, text::cut(&member.command, COMMAND_WIDTH).into_owned()),
    ];
    if several {
        cells.insert(0, (Paint::Plain, String::new()));
    }
    cells
}

/// The tree of a process; none if it ended meanwhile.
async fn tree(client: &mut Client, id: &str) -> Result<Option<ProcessTree>, CommandError> {
    match client.call("process/tree", &Target { id: id.to_owned() }).await {
        Ok(tree) => Ok(Some(tree)),
        Err(error) if error.code().is_some() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn to_json(row: &Row) -> Result<serde_json::Value, CommandError> {
    let encode = |error: serde_json::Error| CommandError::failure(format!("cannot encode the answer: {error}"));
    let mut value = serde_json::to_value(&row.process).map_err(encode)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("house".to_owned(), row.house.clone().into());
        if let Some(tree) = &row.tree {
            object.insert("tree".to_owned(), serde_json::to_value(tree).map_err(encode)?);
        }
    }
    Ok(value)
}

fn state(process: &ProcessInfo) -> (Paint, String) {
    match process.state {
        State::Running => (Paint::Green, "running".to_owned()),
        State::Held => (Paint::Yellow, "held".to_owned()),
        State::Lost => (Paint::Red, "lost".to_owned()),
        State::Exited => match (process.signal.unwrap_or(0), process.exit_code.unwrap_or(0)) {
            (0, 0) => (Paint::Dim, "exited 0".to_owned()),
            (0, code) => (Paint::Yellow, format!("exited {code}")),
            (signal, _) => (Paint::Yellow, format!("signal {signal}")),
        },
    }
}
