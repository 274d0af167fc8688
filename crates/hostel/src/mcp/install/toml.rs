//! One table of a TOML text: `[mcp_servers.NAME]`.

use ::toml_edit::Array;
use ::toml_edit::DocumentMut;
use ::toml_edit::Item;
use ::toml_edit::Table;
use ::toml_edit::value;

use super::Launch;

/// The table of servers.
const SERVERS: &str = "mcp_servers";

/// Sets the server's command, arguments and patience; what else its table holds stays.
pub(super) fn set(text: &str, name: &str, launch: &Launch, seconds: u64) -> Result<String, String> {
    let mut document = parse(text)?;
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{SERVERS}` is not a table"))?;
    let own = servers.entry(name).or_insert_with(|| Item::Table(Table::new()));
    let own = own.as_table_like_mut().ok_or_else(|| format!("`{SERVERS}.{name}` is not a table"))?;
    let arguments: Array = launch.arguments.iter().collect();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let wanted =
        [("command", value(&launch.command)), ("args", value(arguments)), ("tool_timeout_sec", value(seconds))];
    for (key, item) in wanted {
        let same = own.get(key).is_some_and(|old| plain(old) == plain(&item));
        if !same {
            own.insert(key, item);
        }
    }
    Ok(document.to_string())
}

/// Removes the server.
pub(super) fn remove(text: &str, name: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let Some(servers) = document.get_mut(SERVERS) else { return Ok(text.to_owned()) };
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{SERVERS}` is not a table"))?;
    match servers.remove(name) {
        Some(_) => Ok(document.to_string()),
        None => Ok(text.to_owned()),
    }
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: ::toml_edit::TomlError| error.to_string().trim_end().replace('\n', " "))
}

/// A value without what surrounds it.
fn plain(item: &Item) -> String {
    let mut item = item.clone();
    if let Some(value) = item.as_value_mut() {
        value.decor_mut().clear();
        if let Some(array) = value.as_array_mut() {
            array.fmt();
        }
    }
    item.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch { command: "/bin/hostel".into(), arguments: vec!["mcp".into()] }
    }

    const ENTRY: &str = "[mcp_servers.hostel]\ncommand = \"/bin/hostel\"\nargs = [\"mcp\"]\ntool_timeout_sec = 86400\n";

    #[test]
    fn beside_others_and_out_again() {
        for text in [
            "",
            "model = \"o3\" # mine\n",
            "# top\n[mcp_servers.x]\ncommand = 'y'   # as it is\n\n[tui]\na=1\n",
            "[mcp_servers]\nx = { command = \"y\" }\n",
        ] {
            let once = set(text, "hostel", &launch(), 86_400).unwrap();
            assert_eq!(set(&once, "hostel", &launch(), 86_400).unwrap(), once);
            for line in text.lines() {
                assert!(once.lines().any(|other| other == line), "{line} in {once}");
            }
            let parsed: toml_edit::DocumentMut = once.parse().unwrap();
            assert_eq!(parsed["mcp_servers"]["hostel"]["command"].as_str(), Some("/bin/hostel"));
            assert_eq!(remove(&once, "hostel").unwrap().trim_end(), text.trim_end());
        }
        assert_eq!(set("", "hostel", &launch(), 86_400).unwrap(), ENTRY);
    }

    #[test]
    fn an_old_entry_keeps_what_is_not_ours() {
        let old = "[mcp_servers.hostel]\ncommand = \"old\"\nenabled = false # for now\nargs = [ \"mcp\" ]\n";
        let new = set(old, "hostel", &launch(), 86_400).unwrap();
        assert_eq!(
            new,
            "[mcp_servers.hostel]\ncommand = \"/bin/hostel\"\nenabled = false # for now\nargs = [ \"mcp\" ]\ntool_timeout_sec = 86400\n"
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_alone() {
        for wrong in ["[", "a = ", "mcp_servers = 3", "[mcp_servers]\nhostel = 1"] {
            assert!(set(wrong, "hostel", &launch(), 1).is_err(), "{wrong}");
        }
        assert_eq!(remove("a = 1", "hostel").unwrap(), "a = 1");
    }
}
