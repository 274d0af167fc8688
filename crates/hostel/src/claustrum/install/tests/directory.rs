//! The program directory: what may be written there, what is removed, and who else is at work.

use super::*;

#[tokio::test]
async fn a_version_never_leads_out_of_the_directory() {
    let place = Place::new();
    fs::create_dir_all(place.at("cli/sub")).unwrap();
    for (name, age) in [("victim-1", 50), ("victim-2", 40)] {
        place.version(name, age);
        fs::rename(place.at("cli").join(name), place.at(name)).unwrap();
    }
    for version in ["../victim-1", "..", ".", "sub/x", "/etc/passwd", "../cli/y", "a/../../victim-1"] {
        let options = InstallOptions { cli_version: version.into(), cli_keep: 1, ..place.with_blob(GOOD) };
        let found = facts(options).await;
        assert_eq!(found["cliError"], format!("invalid cli version \"{version}\""));
        assert_eq!(found["cliPath"], "");
        assert!(place.at("blob.zst").exists(), "{version}");
    }
    assert!(place.at("victim-1").exists() && place.at("victim-2").exists());
    assert_eq!(place.names(), ["sub"]);
}

#[tokio::test]
async fn pruning_keeps_the_newest_versions_and_counts_nothing_else() {
    let place = Place::new();
    for (name, age) in [("a", 100), ("b", 200), ("c", 300), ("d", 400)] {
        place.version(name, age);
    }
    // Newer than every version, and none of them one.
    for (name, age) in [("x.zst", 1), (".fetch-1", 1), ("1.0.tmp", 1), ("old.tmp", 7200), (".lock", 1)] {
        place.version(name, age);
    }
    fs::create_dir(place.at("cli/directory")).unwrap();
    symlink("nowhere", place.at("cli/link")).unwrap();

    let failed = InstallOptions { cli_keep: 1, ..place.with_blob(BAD) };
    error(failed).await;
    assert_eq!(place.names().len(), 11, "a failed installation prunes nothing");

    let options = InstallOptions { cli_keep: 0, ..place.with_blob(GOOD) };
    assert_eq!(facts(options).await.get("cliError"), None);
    assert_eq!(place.names().len(), 12, "zero keeps all");

    assert_eq!(facts(place.options()).await["cliWasPresent"], true);
    assert_eq!(place.names(), [".lock", "1.0.tmp", "1.2.3", "a", "b", "directory", "link"]);

    // The version asked for stays, however old it is.
    let old = SystemTime::now() - Duration::from_secs(5000);
    fs::File::open(place.cli()).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    let options = InstallOptions { cli_keep: 1, ..place.options() };
    assert_eq!(facts(options).await["cliWasPresent"], true);
    assert_eq!(place.names(), [".lock", "1.0.tmp", "1.2.3", "directory", "link"]);
    let options = InstallOptions { cli_keep: -5, ..place.options() };
    facts(options).await;
    assert_eq!(place.names().len(), 5, "less than zero keeps all");
}

#[tokio::test]
async fn installations_at_the_same_time_do_not_disturb_each_other() {
    let place = Place::new();
    let runs: Vec<_> = (0..8)
        .map(|number| {
            let blob = place.at(&format!("blob-{number}.zst"));
            fs::write(&blob, compressed(GOOD)).unwrap();
            tokio::spawn(facts(InstallOptions { cli_zst: blob.into(), ..place.options() }))
        })
        .collect();
    for run in runs {
        let found = run.await.unwrap();
        assert_eq!(found.get("cliError"), None, "{found}");
    }
    assert_eq!(place.names(), ["1.2.3"]);
}
