//! The statements of the table `authors`.

use std::collections::HashMap;

use hostel_wire::authorship::KeyHistory;
use rusqlite::{Connection, params};

use super::Pin;
use crate::schema::signed;

/// All pins, by member.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<HashMap<String, Pin>> {
    pins(connection, |pins| pins.collect())
}

/// Those pins of a damaged database that can be read.
pub(crate) fn salvage(connection: &Connection) -> HashMap<String, Pin> {
    pins(connection, |pins| Ok(pins.map_while(Result::ok).collect())).unwrap_or_default()
}

fn pins<T>(
    connection: &Connection,
    take: impl FnOnce(&mut dyn Iterator<Item = rusqlite::Result<(String, Pin)>>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let sql = "SELECT member_id, pubkey, earlier, unproven, name, name_at, signs_from FROM authors";
    let mut statement = connection.prepare(sql)?;
    let mut pins = statement.query_map([], |row| {
        let earlier = serde_json::from_str(row.get_ref(2)?.as_str()?).unwrap_or_default();
        let pin = Pin {
            keys: KeyHistory { current: row.get(1)?, earlier },
            is_unproven: row.get(3)?,
            name: row.get(4)?,
            name_at: row.get::<_, i64>(5)?.cast_unsigned(),
            signs_from: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        };
        Ok((row.get(0)?, pin))
    })?;
    take(&mut pins)
}

/// Writes pins as they are now.
pub(crate) fn store(connection: &Connection, pins: &[(String, Pin)]) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO authors (member_id, pubkey, earlier, unproven, name, name_at, signs_from)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (member_id) DO UPDATE SET pubkey = excluded.pubkey, earlier = excluded.earlier,
         unproven = excluded.unproven, name = excluded.name, name_at = excluded.name_at,
         signs_from = excluded.signs_from",
    )?;
    for (member_id, pin) in pins {
        statement.execute(params![
            member_id,
            pin.keys.current,
            serde_json::to_string(&pin.keys.earlier).unwrap_or_else(|_| "[]".to_owned()),
            pin.is_unproven,
            pin.name,
            signed(pin.name_at),
            pin.signs_from.map(signed),
        ])?;
    }
    Ok(())
}
