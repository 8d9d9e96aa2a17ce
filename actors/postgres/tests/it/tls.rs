use std::error::Error as _;
use std::fs;
use std::time::Duration;

use asyncsteps_postgres::{Dial, DialError, split_url};
use asyncsteps_postgres_server::Server;
use tokio_postgres::Client;

/// How long a handshake may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

async fn dial(url: &str) -> Result<Client, DialError> {
    let (url, options) = split_url(url);
    let config = url.parse().expect("a URL");
    let dial = Dial::new(config, options, &[("search_path", "shop")], PATIENCE);
    let (client, connection) = dial.connect().await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Whether the connection has TLS.
async fn has_tls(url: &str) -> bool {
    let client = dial(url).await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    client.query_one(sql, &[]).await.expect("a row").get(0)
}

/// Why there is none, with all causes.
async fn refused(url: &str) -> String {
    let error = dial(url).await.err().unwrap_or_else(|| panic!("{url} is accepted"));
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn servers_are_who_the_url_says() {
    let Some(mut server) = Server::start() else { return };
    let socket = format!("{}?sslmode=require", server.url());
    assert!(!has_tls(&socket).await, "there is none on a socket of the machine");
    server.serve_tls();
    let file = |name: &str| server.file(name).display().to_string();
    let url = |host: &str, more: &str| {
        format!("postgres://journal@{host}:{}/postgres?{more}", server.port())
    };
    let root = format!("sslrootcert={}", file("root.crt"));
    let other = format!("sslrootcert={}", file("other.crt"));
    for (host, more, is_secure) in [
        ("localhost", "", true),
        ("localhost", "sslmode=disable", false),
        ("localhost", "sslmode=allow", true),
        ("localhost", "sslmode=require", true),
        ("localhost", &format!("sslmode=verify-full&{root}"), true),
        ("127.0.0.1", &format!("sslmode=verify-ca&{root}"), true),
        ("127.0.0.1", &format!("sslmode=require&{root}"), true),
        ("localhost", &format!("sslmode=verify-full&{root}&hostaddr=127.0.0.1"), true),
    ] {
        assert_eq!(has_tls(&url(host, more)).await, is_secure, "{host} {more}");
    }
    for (host, more, why) in [
        ("127.0.0.1", format!("sslmode=verify-full&{root}"), "not valid for name"),
        ("localhost", format!("sslmode=verify-ca&{other}"), "UnknownIssuer"),
        ("localhost", format!("sslmode=require&{other}"), "UnknownIssuer"),
        // only the authorities of the system count
        ("localhost", "sslmode=verify-full".to_owned(), "UnknownIssuer"),
        ("localhost", "sslmode=verify-ca&sslrootcert=system".to_owned(), "UnknownIssuer"),
        ("localhost", "sslmode=verify-ca&sslrootcert=/nowhere".to_owned(), "/nowhere"),
    ] {
        let text = refused(&url(host, &more)).await;
        assert!(text.contains(why), "{host} {more}: {text}");
    }

    // a password that is bound to the certificate, and a certificate in place of a password
    let client = dial(&url("localhost", "")).await.expect("a connection");
    let role = "CREATE ROLE ann LOGIN PASSWORD 'secret'";
    client.batch_execute(role).await.expect("a role");
    let rules = "hostssl all ann localhost scram-sha-256\nhostssl all all localhost cert\n";
    fs::write(server.file("data/pg_hba.conf"), rules).expect("the file is there");
    client.execute("SELECT pg_reload_conf()", &[]).await.expect("it is read");
    let ann =
        format!("host=localhost port={} user=ann password=secret dbname=postgres", server.port());
    assert!(has_tls(&format!("{ann} channel_binding=require")).await);
    let plain = refused(&format!("{ann} sslmode=disable")).await;
    assert!(plain.contains("no encryption"), "{plain}");
    let without = refused(&url("localhost", "sslmode=require")).await;
    assert!(without.contains("requires a valid client certificate"), "{without}");
    let (certificate, key) = (file("client.crt"), file("client.key"));
    let mine = url("localhost", &format!("sslmode=verify-full&{root}&sslcert={certificate}"));
    assert!(has_tls(&format!("{mine}&sslkey={key}")).await);
    assert!(refused(&mine).await.contains("client.crt"), "the key is in the other file");
    let both = [&certificate, &key].map(|file| fs::read(file).expect("a file")).concat();
    fs::write(&certificate, both).expect("a file");
    assert!(has_tls(&mine).await, "files are read at each dial");

    fs::write(server.file("data/postgresql.auto.conf"), "listen_addresses = 'localhost'\n")
        .expect("a file");
    fs::write(server.file("data/pg_hba.conf"), "host all all localhost trust\n").expect("a file");
    server.end("INT");
    server.run();
    let url =
        |more: &str| format!("postgres://journal@localhost:{}/postgres?{more}", server.port());
    assert!(!has_tls(&url("")).await, "it has none");
    assert!(refused(&url("sslmode=require")).await.contains("does not support TLS"));
}
