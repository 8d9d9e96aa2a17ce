//! What a node shows to its server. Files are read each time that the node connects.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_nats::{Auth, ServerAddr};
use asyncsteps_executor::security::Secret;
use nkeys::KeyPair;

/// How a node proves to the server who it is.
#[derive(Clone)]
pub(super) enum NodeCredentials {
    Anonymous,
    User(String, Secret),
    Token(Secret),
    TokenFile(PathBuf),
    /// JWT and seed.
    File(PathBuf),
}

/// The state of the files of a node: when each was written, and its length.
pub(super) type FileState = Vec<Option<(SystemTime, u64)>>;

impl NodeCredentials {
    /// What the node shows to one of these servers, which sent this nonce.
    pub(super) async fn auth(&self, servers: &str, nonce: &[u8]) -> io::Result<Auth> {
        let mut auth = Auth::new();
        match self {
            Self::Anonymous => match credentials_of_url(servers) {
                Some((user, Some(password))) => {
                    (auth.username, auth.password) = (Some(user), Some(password));
                }
                Some((token, None)) => auth.token = Some(token),
                None => {}
            },
            Self::User(user, password) => {
                auth.username = Some(user.clone());
                auth.password = Some(password.expose().to_owned());
            }
            Self::Token(token) => auth.token = Some(token.expose().to_owned()),
            Self::TokenFile(path) => {
                auth.token = Some(tokio::fs::read_to_string(path).await?.trim().to_owned());
            }
            Self::File(path) => {
                let file = tokio::fs::read_to_string(path).await?;
                let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
                let (jwt, seed) =
                    jwt_and_seed(&file).ok_or_else(|| wrong("no JWT and no seed in it"))?;
                let signed = KeyPair::from_seed(seed).and_then(|key| key.sign(nonce));
                auth.signature = Some(signed.map_err(|error| wrong(&error.to_string()))?);
                auth.jwt = Some(jwt.to_owned());
            }
        }
        Ok(auth)
    }

    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::TokenFile(path) | Self::File(path) => Some(path),
            Self::Anonymous | Self::User(..) | Self::Token(_) => None,
        }
    }
}

/// The state of files, as they are now.
pub(super) async fn file_state<'a>(files: impl Iterator<Item = &'a Path>) -> FileState {
    let mut state = FileState::new();
    for file in files {
        let found = tokio::fs::metadata(file).await.ok();
        state.push(found.and_then(|file| Some((file.modified().ok()?, file.len()))));
    }
    state
}

/// JWT and seed of a file as `nsc` writes it: each is the line below one with dashes.
fn jwt_and_seed(file: &str) -> Option<(&str, &str)> {
    let is_mark = |line: &str| line.starts_with("---");
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let mut texts = lines
        .windows(2)
        .filter(|pair| is_mark(pair[0]) && !pair[1].is_empty() && !is_mark(pair[1]))
        .map(|pair| pair[1]);
    Some((texts.next()?, texts.next()?))
}

/// The servers of a list with commas between them.
pub(super) fn servers(servers: &str) -> Vec<String> {
    servers.split(',').map(|server| server.trim().to_owned()).collect()
}

/// The user and the password, or the token, that the first of the URLs has.
fn credentials_of_url(urls: &str) -> Option<(String, Option<String>)> {
    let server: ServerAddr = servers(urls).first()?.parse().ok()?;
    Some((server.username()?.to_owned(), server.password().map(ToOwned::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jwt_and_seed_are_found_in_a_file_of_nsc() {
        let file = "-----BEGIN NATS USER JWT-----\r\neyJ0.e30.x-_\r\n------END NATS USER JWT------\r\n\
            \r\n****** IMPORTANT ******\r\n-----BEGIN USER NKEY SEED-----\r\nSUAIO\r\n\
            ------END USER NKEY SEED------\r\n\r\n";
        assert_eq!(jwt_and_seed(file), Some(("eyJ0.e30.x-_", "SUAIO")));
        assert_eq!(jwt_and_seed(&file[..60]), None);
        assert_eq!(jwt_and_seed(""), None);
    }
}
