//! Blobs.

use std::os::unix::fs::MetadataExt as _;

use hostel_broker::engine::{BlobError, BlobSink as _, Engine};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use crate::engine::support::open;

#[tokio::test]
async fn a_blob_is_there_once_it_is_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let mut blob = engine.blob_create("mesh-1", 1000).await.unwrap();
    blob.write(&[1; 600]).await.unwrap();
    assert!(matches!(engine.blob_open("mesh-1", 0).await.map(|(info, _)| info), Err(BlobError::NotFound)));
    blob.write(&[2; 400]).await.unwrap();
    let info = blob.finish().await.unwrap();
    let bytes = [[1; 600].as_slice(), &[2; 400]].concat();
    assert_eq!((info.size, info.sha256), (1000, Some(Sha256::digest(&bytes).into())));
    for from in [0, 1, 999, 1000, 2000] {
        let (info, mut reader) = engine.blob_open("mesh-1", from).await.unwrap();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.unwrap();
        assert_eq!((info.size, &read[..]), (1000, bytes.get(from as usize..).unwrap_or_default()));
    }
    let directory = scratch.path().join("blobs");
    assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(directory.join("mesh-1")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(engine.blob_older(u64::MAX, 10).await.unwrap(), ["mesh-1"]);
    assert!(engine.blob_older(1000, 10).await.unwrap().is_empty());
    engine.blob_delete("mesh-1").await.unwrap();
    engine.blob_delete("mesh-1").await.unwrap();
    assert!(engine.blob_open("mesh-1", 0).await.is_err());
}

#[tokio::test]
async fn what_is_not_finished_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let mut blob = engine.blob_create("a", 10).await.unwrap();
    blob.write(&[0; 10]).await.unwrap();
    assert!(matches!(blob.write(&[0]).await, Err(BlobError::TooLarge(10))));
    drop(blob);
    let count = || std::fs::read_dir(scratch.path().join("blobs")).unwrap().count();
    assert_eq!(count(), 0);
    // Neither does a crash.
    std::mem::forget(engine.blob_create("a", 10).await.unwrap());
    assert_eq!(count(), 1);
    let _engine = open(scratch.path()).await;
    assert_eq!(count(), 0);
}

#[tokio::test]
async fn an_id_cannot_lead_elsewhere() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    for id in ["", ".", "..", "../x", "a/b", "a.part", "A", "a\0", &"a".repeat(129)] {
        assert!(matches!(engine.blob_create(id, 1).await.map(drop), Err(BlobError::BadId(_))), "{id}");
        assert!(matches!(engine.blob_open(id, 0).await.map(drop), Err(BlobError::BadId(_))), "{id}");
        assert!(matches!(engine.blob_delete(id).await, Err(BlobError::BadId(_))), "{id}");
    }
}
