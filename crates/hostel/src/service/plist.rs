//! A service as a property list of launchd.
//!
//! Invariant: what is written is well-formed XML, whatever stands in a path. launchd cannot tell exit codes apart: a
//! daemon that must not be started again (4, 78) is tried again every minute, and says so in its log each time.

use super::Scope;
use super::unit::Confinement;
use super::unit::Unit;

impl Unit {
    pub(crate) fn plist_name(&self) -> String {
        format!("{}.plist", self.label)
    }

    /// The text of the property list.
    pub(crate) fn launchd(&self) -> String {
        let mut list = List { text: String::from(START) };
        let note = format!("<!-- Written by `{}`, which replaces it. -->", self.written_by);
        list.text.push_str(&format!("{note}\n<plist version=\"1.0\">\n<dict>\n"));
        list.text("Label", &self.label);
        list.key("ProgramArguments");
        list.line(1, "<array>");
        for word in &self.command {
            list.line(2, &format!("<string>{}</string>", escaped(word)));
        }
        list.line(1, "</array>");
        if !self.environment.is_empty() {
            list.key("EnvironmentVariables");
            list.line(1, "<dict>");
            for (name, value) in &self.environment {
                list.line(2, &format!("<key>{}</key>", escaped(name)));
                list.line(2, &format!("<string>{}</string>", escaped(value)));
            }
            list.line(1, "</dict>");
        }
        if let (Some(user), Scope::System) = (&self.user, self.scope) {
            list.text("UserName", user);
        }
        list.key("RunAtLoad");
        list.line(1, "<true/>");
        list.dict("KeepAlive", &[("SuccessfulExit", "<false/>")]);
        let (pause, files) = match self.confinement {
            Confinement::Daemon { .. } => (60, 4096),
            Confinement::House => (5, 65_536),
        };
        list.key("ThrottleInterval");
        list.line(1, &format!("<integer>{pause}</integer>"));
        let files = format!("<integer>{files}</integer>");
        list.dict("SoftResourceLimits", &[("NumberOfFiles", &files)]);
        if self.confinement == Confinement::House {
            // Or the end of the daemon would be the end of the keeper.
            list.key("AbandonProcessGroup");
            list.line(1, "<true/>");
        }
        list.text("ProcessType", "Background");
        // What it prints is in its log already.
        list.text.push_str("</dict>\n</plist>\n");
        list.text
    }
}

const START: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n";

/// A list as it grows.
struct List {
    text: String,
}

impl List {
    fn line(&mut self, depth: usize, text: &str) {
        self.text.push_str(&"  ".repeat(depth));
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn key(&mut self, name: &str) {
        self.line(1, &format!("<key>{name}</key>"));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.key(name);
        self.line(1, &format!("<string>{}</string>", escaped(value)));
    }

    fn dict(&mut self, name: &str, entries: &[(&str, &str)]) {
        self.key(name);
        self.line(1, "<dict>");
        for (key, value) in entries {
            self.line(2, &format!("<key>{key}</key>"));
            self.line(2, value);
        }
        self.line(1, "</dict>");
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::unit::tests::sample;
    use super::*;

    #[test]
    fn it_is_a_property_list() {
        let text = sample(Scope::User).launchd();
        assert!(text.starts_with("<?xml") && text.ends_with("</plist>\n"));
        assert!(text.contains("<key>Label</key>\n  <string>com.claudemesh.daemon.lab</string>"));
        assert!(text.contains("<string>/home/a &amp; \"b\"</string>"));
        assert!(!text.contains("UserName"));
        assert!(sample(Scope::System).launchd().contains("<string>ada</string>"));
    }
}
