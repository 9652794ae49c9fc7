//! Files in the broker's object store. The name of a file is its digest; a folder is a list of files.

use async_nats::jetstream::object_store::{GetErrorKind, InfoErrorKind, ObjectStore};
use kinescope_campaign::messages::is_digest;
use kinescope_campaign::{DigestError, FolderFiles, digest_path};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use trace_core::progress::Progress;

/// Maximum number of files of a folder.
const MAX_FOLDER_FILES: usize = 100_000;
/// Maximum size of the list of a folder's files, bytes.
const MAX_LIST_BYTES: u64 = 32 << 20;
/// Time without a byte after which a download fails.
const STALL_LIMIT: Duration = Duration::from_secs(30);
/// Bytes that are read at once.
const PIECE: usize = 128 << 10;

/// Why a file is not in the store, or cannot be read from it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file of this machine cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file of this machine has no digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The file changed while it was sent.
    #[error("{}: the file changed while it was sent; start the campaign again", .0.display())]
    Changed(PathBuf),
    /// The store does not have the file.
    #[error("the broker has no file with the digest {0}")]
    Missing(String),
    /// What the store has is not the file.
    #[error("the broker's file {digest} is unusable: {reason}")]
    Unsound {
        /// Digest of the file.
        digest: String,
        /// What is wrong.
        reason: String,
    },
    /// The broker does not answer.
    #[error("the broker does not serve files: {0}")]
    Broker(String),
}

impl FileError {
    /// Names the file of this machine that an object is written to.
    fn with_path(self, path: &Path) -> Self {
        match self {
            Self::Io { source, .. } => Self::Io {
                path: path.to_owned(),
                source,
            },
            e => e,
        }
    }

    /// Returns whether this machine cannot read or write a file, for example because its disk is full.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// Returns whether the same request may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Broker(_) | Self::Io { .. })
    }

    /// Returns the number of deliveries of a run after which this error is its result. Until then, the run goes back to the
    /// queue: others may have room, the broker may answer, and the client sends a file again that the broker lost.
    #[must_use]
    pub fn max_deliveries(&self) -> u64 {
        match self {
            Self::Io { .. } | Self::Missing(_) => 4,
            Self::Broker(_) => 20,
            Self::Digest(_) | Self::Changed(_) | Self::Unsound { .. } => 1,
        }
    }
}

/// A file of a folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedFile {
    name: String,
    digest: String,
}

/// Files in the broker's object store.
#[derive(Clone)]
pub struct FileStore {
    objects: ObjectStore,
}

/// A reader that hashes what it reads.
struct HashingReader<R> {
    reader: R,
    hasher: blake3::Hasher,
}

impl<R: AsyncRead + Unpin> AsyncRead for HashingReader<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = &read {
            self.hasher.update(buf.filled().get(before..).unwrap_or_default());
        }
        read
    }
}

/// A writer that hashes what it writes.
struct HashingWriter<W> {
    writer: W,
    hasher: blake3::Hasher,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for HashingWriter<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.writer).poll_write(cx, bytes);
        if let Poll::Ready(Ok(n)) = &written {
            self.hasher.update(bytes.get(..*n).unwrap_or_default());
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

/// Returns the name of the list of a folder's files.
fn list_name(digest: &str) -> String {
    format!("folder-{digest}")
}

/// Returns the path of a listed file in a folder, if its name stays in that folder.
fn listed_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_inside = path.components().all(|c| matches!(c, Component::Normal(_)));
    (is_inside && !name.is_empty() && name.len() < 4096).then(|| folder.join(path))
}

impl FileStore {
    /// Creates a view of a bucket.
    #[must_use]
    pub fn new(objects: ObjectStore) -> Self {
        Self { objects }
    }

    /// Returns the size of an object in bytes, or `None` if there is none.
    async fn find(&self, name: &str) -> Result<Option<u64>, FileError> {
        match self.objects.info(name).await {
            Ok(info) if info.deleted => Ok(None),
            Ok(info) => Ok(Some(info.size as u64)),
            Err(e) if e.kind() == InfoErrorKind::NotFound => Ok(None),
            Err(e) => Err(FileError::Broker(e.to_string())),
        }
    }

    /// Sends a file or folder whose digest is known, unless the store has it. Returns the number of bytes sent.
    ///
    /// # Errors
    /// If it cannot be read, it changed, or the broker does not answer.
    pub async fn upload(&self, path: &Path, digest: &str) -> Result<u64, FileError> {
        let meta = tokio::fs::metadata(path).await.map_err(|source| FileError::Io {
            path: path.to_owned(),
            source,
        })?;
        if !meta.is_dir() {
            return self.upload_file(digest, path, digest, meta.len()).await;
        }
        let name = list_name(digest);
        if self.find(&name).await?.is_some() {
            return Ok(0);
        }
        let folder = path.to_owned();
        let files = tokio::task::spawn_blocking(move || FolderFiles::read(&folder, &Progress::new()))
            .await
            .map_err(|e| FileError::Broker(e.to_string()))??;
        if files.digest() != digest {
            return Err(FileError::Changed(path.to_owned()));
        }
        let (mut sent, mut list) = (0_u64, Vec::new());
        for (name, digest) in files.iter() {
            let file = path.join(name);
            let bytes = tokio::fs::metadata(&file).await.map_or(0, |m| m.len());
            sent = sent.saturating_add(self.upload_file(&digest, &file, &digest, bytes).await?);
            list.push(ListedFile {
                name: name.to_string_lossy().into_owned(),
                digest,
            });
        }
        // The list comes last: a folder with a list is complete.
        let list = serde_json::to_vec(&list).map_err(|e| FileError::Broker(e.to_string()))?;
        let put = self.objects.put(name.as_str(), &mut list.as_slice()).await;
        put.map_err(|e| FileError::Broker(e.to_string()))?;
        Ok(sent)
    }

    async fn upload_file(&self, name: &str, path: &Path, digest: &str, bytes: u64) -> Result<u64, FileError> {
        if self.find(name).await? == Some(bytes) {
            return Ok(0);
        }
        let failed = |source| FileError::Io {
            path: path.to_owned(),
            source,
        };
        let mut reader = HashingReader {
            reader: tokio::fs::File::open(path).await.map_err(failed)?,
            hasher: blake3::Hasher::new(),
        };
        let put = self.objects.put(name, &mut reader).await;
        put.map_err(|e| FileError::Broker(e.to_string()))?;
        if reader.hasher.finalize().to_hex().as_str() != digest {
            // It would stay there under a wrong name.
            self.remove(name).await?;
            return Err(FileError::Changed(path.to_owned()));
        }
        Ok(bytes)
    }

    /// Sends a file of this machine under a name of its own. Returns digest and size.
    ///
    /// # Errors
    /// If it cannot be read, or the broker does not answer.
    pub async fn upload_as(&self, name: &str, path: &Path) -> Result<(String, u64), FileError> {
        let file = path.to_owned();
        let digest = tokio::task::spawn_blocking(move || digest_path(&file, &Progress::new()))
            .await
            .map_err(|e| FileError::Broker(e.to_string()))??;
        let bytes = tokio::fs::metadata(path).await.map_or(0, |m| m.len());
        self.upload_file(name, path, &digest, bytes).await?;
        Ok((digest, bytes))
    }

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn remove(&self, name: &str) -> Result<(), FileError> {
        if self.find(name).await?.is_none() {
            return Ok(());
        }
        let removed = self.objects.delete(name).await;
        removed.map_err(|e| FileError::Broker(e.to_string()))
    }

    /// Reads a file or folder into a path that does not exist, and checks its digest. Returns its size in bytes.
    ///
    /// # Errors
    /// If the store does not have it, it is larger than `max_bytes`, it has another digest, or the broker does not
    /// answer.
    pub async fn download(&self, digest: &str, to: &Path, max_bytes: u64) -> Result<u64, FileError> {
        if self.find(digest).await?.is_some() {
            return self.download_file(digest, digest, to, max_bytes).await;
        }
        let name = list_name(digest);
        if self.find(&name).await?.is_none() {
            return Err(FileError::Missing(digest.to_owned()));
        }
        let unsound = |reason: &str| FileError::Unsound {
            digest: digest.to_owned(),
            reason: reason.to_owned(),
        };
        let failed = |source| FileError::Io {
            path: to.to_owned(),
            source,
        };
        let mut list = Vec::new();
        self.read(&name, MAX_LIST_BYTES, &mut list)
            .await
            .map_err(|e| e.with_path(to))?;
        let list: Vec<ListedFile> = serde_json::from_slice(&list).map_err(|e| unsound(&e.to_string()))?;
        if list.len() > MAX_FOLDER_FILES {
            return Err(unsound("its folder has too many files"));
        }
        tokio::fs::create_dir_all(to).await.map_err(failed)?;
        let mut total = 0_u64;
        for file in &list {
            let path = listed_path(to, &file.name).ok_or_else(|| unsound("a file's name leaves the folder"))?;
            if !is_digest(&file.digest) {
                return Err(unsound("the digest of a file is wrong"));
            }
            if let Some(parent) = path.parent() {
                tokio::fs::create_dir_all(parent).await.map_err(failed)?;
            }
            let left = max_bytes.saturating_sub(total);
            total = total.saturating_add(self.download_file(&file.digest, &file.digest, &path, left).await?);
        }
        let folder = to.to_owned();
        let found = tokio::task::spawn_blocking(move || digest_path(&folder, &Progress::new()))
            .await
            .map_err(|e| FileError::Broker(e.to_string()))??;
        match found == digest {
            true => Ok(total),
            false => Err(unsound("its files are others")),
        }
    }

    /// Reads the file with a name, and checks its digest.
    ///
    /// # Errors
    /// As [`Self::download`].
    pub async fn download_file(&self, name: &str, digest: &str, to: &Path, max_bytes: u64) -> Result<u64, FileError> {
        let failed = |source| FileError::Io {
            path: to.to_owned(),
            source,
        };
        let mut to_file = HashingWriter {
            writer: tokio::fs::File::create_new(to).await.map_err(failed)?,
            hasher: blake3::Hasher::new(),
        };
        let bytes = self
            .read(name, max_bytes, &mut to_file)
            .await
            .map_err(|e| e.with_path(to))?;
        to_file.flush().await.map_err(failed)?;
        // Its name says that it is whole, also after a power failure.
        to_file.writer.sync_all().await.map_err(failed)?;
        match to_file.hasher.finalize().to_hex().as_str() == digest {
            true => Ok(bytes),
            false => Err(FileError::Unsound {
                digest: digest.to_owned(),
                reason: "its bytes have another digest".to_owned(),
            }),
        }
    }

    /// Writes the bytes of an object. Returns its size in bytes.
    async fn read(&self, name: &str, max_bytes: u64, to: &mut (impl AsyncWrite + Unpin)) -> Result<u64, FileError> {
        let object = self.objects.get(name).await;
        let mut object = object.map_err(|e| match e.kind() {
            GetErrorKind::NotFound => FileError::Missing(name.to_owned()),
            _ => FileError::Broker(e.to_string()),
        })?;
        let too_large = || FileError::Unsound {
            digest: name.to_owned(),
            reason: format!("it has more than {max_bytes} bytes"),
        };
        if object.info().size as u64 > max_bytes {
            return Err(too_large());
        }
        let (mut total, mut piece) = (0_u64, vec![0; PIECE]);
        loop {
            let read = tokio::time::timeout(STALL_LIMIT, object.read(&mut piece)).await;
            let n = match read {
                Ok(Ok(n)) => n,
                Ok(Err(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                    return Err(FileError::Unsound {
                        digest: name.to_owned(),
                        reason: e.to_string(),
                    });
                }
                Ok(Err(e)) => return Err(FileError::Broker(e.to_string())),
                Err(_) => return Err(FileError::Broker("nothing arrives".to_owned())),
            };
            if n == 0 {
                return Ok(total);
            }
            total = total.saturating_add(n as u64);
            if total > max_bytes {
                return Err(too_large());
            }
            let written = to.write_all(piece.get(..n).unwrap_or_default()).await;
            written.map_err(|source| FileError::Io {
                path: PathBuf::from(name),
                source,
            })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_files_stay_in_their_folder() {
        let path = |name: &str| listed_path(Path::new("/cache"), name);
        assert_eq!(path("a/b.bin").unwrap(), Path::new("/cache/a/b.bin"));
        for name in ["", "../a", "/etc/passwd", "a/../../b", &"x".repeat(5000)] {
            assert!(path(name).is_none(), "{name}");
        }
    }
}
