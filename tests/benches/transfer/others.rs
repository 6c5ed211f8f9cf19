//! The others: `cp`, a QUIC stream without deskgrid, and `scp` through an `sshd` of our own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Cost, cost};

/// The longest time that a server of SSH may take to start, to copy and to end a connection.
const PATIENCE: Duration = Duration::from_secs(120);
/// The bytes that a plain stream reads and writes at a time.
const PIECE: usize = 256 * 1024;

pub(crate) fn cp(file: &Path, copy: &Path) -> Result<Cost, String> {
    let _ = fs::remove_file(copy);
    let mut done = Ok(());
    let cost = cost(&[("cp", 0)], || {
        done = run(Command::new("cp").arg(file).arg(copy));
    });
    done.map(|()| cost)
}

/// Sends the file over one QUIC stream between two processes, with quinn's own settings.
pub(crate) fn plain(file: &Path, copy: &Path) -> Result<Cost, String> {
    let _ = fs::remove_file(copy);
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let certificate = dir.path().join("certificate");

    let mut sender = Command::new(&own)
        .args([SENDER.as_ref(), file, &certificate])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut said = BufReader::new(sender.stdout.take().ok_or("no output")?).lines();
    let mut line = || {
        said.next()
            .and_then(Result::ok)
            .ok_or_else(|| "the sender ended early".to_owned())
    };
    let address = line()?;

    rustix::fs::sync();
    let began = Instant::now();
    let receiver = Command::new(&own)
        .args([RECEIVER.as_ref(), Path::new(&address), copy, &certificate])
        .output()
        .map_err(|e| e.to_string())?;
    let wall_s = began.elapsed().as_secs_f64();
    let number = |text: &str| text.trim().parse::<f64>().map_err(|e| e.to_string());
    let cpu_s = vec![
        (
            "receiver",
            number(&String::from_utf8_lossy(&receiver.stdout))?,
        ),
        ("sender", number(&line()?)?),
    ];
    let _ = sender.wait();

    Ok(Cost { wall_s, cpu_s })
}

/// The first words of the command lines of the two ends of a plain stream.
const SENDER: &str = "plain-sender";
const RECEIVER: &str = "plain-receiver";

/// Whether this process is an end of a plain stream; it has done its work then.
pub(crate) fn is_end(args: &[String]) -> bool {
    let end = async {
        match args {
            [_, what, file, certificate] if what == SENDER => send(file, certificate).await,
            [_, what, address, copy, certificate] if what == RECEIVER => {
                receive(address, copy, certificate).await;
            }
            _ => return false,
        }
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        println!("{}", spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9);
        true
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(end)
}

async fn send(file: &str, certificate: &str) {
    let key = rcgen::generate_simple_self_signed(["plain".to_owned()]).expect("a certificate");
    fs::write(certificate, key.cert.der()).expect("a file can be written");
    let secret = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|tls| {
            tls.with_no_client_auth()
                .with_single_cert(vec![key.cert.der().clone()], secret.into())
        })
        .expect("TLS settings");
    let server = QuicServerConfig::try_from(tls).expect("QUIC settings");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint =
        Endpoint::server(ServerConfig::with_crypto(Arc::new(server)), any).expect("a port");
    println!("{}", endpoint.local_addr().expect("an address"));

    let connection = endpoint.accept().await.expect("somebody").await;
    let connection = connection.expect("a connection");
    let mut stream = connection.open_uni().await.expect("a stream");
    let mut file = tokio::fs::File::open(file).await.expect("a file");
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece).await.expect("the file can be read");
        if length == 0 {
            break;
        }
        let sent = stream.write_all(&piece[..length]).await;
        sent.expect("the stream takes it");
    }
    stream.finish().expect("the stream ends");
    connection.closed().await;
}

async fn receive(address: &str, copy: &str, certificate: &str) {
    let mut roots = rustls::RootCertStore::empty();
    let trusted = CertificateDer::from(fs::read(certificate).expect("a certificate"));
    roots.add(trusted).expect("a certificate");
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS settings")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = QuicClientConfig::try_from(tls).expect("QUIC settings");
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a port");
    let config = ClientConfig::new(Arc::new(client));
    let address = address.parse().expect("an address");
    let connecting = endpoint.connect_with(config, address, "plain");
    let connection = connecting.expect("an address").await.expect("an answer");

    let mut stream = connection.accept_uni().await.expect("a stream");
    let file = tokio::fs::File::create(copy).await.expect("a file");
    let mut file = tokio::io::BufWriter::with_capacity(PIECE, file);
    while let Some(chunk) = stream.read_chunk(PIECE, true).await.expect("bytes") {
        let written = file.write_all(&chunk.bytes).await;
        written.expect("the file can be written");
    }
    file.flush().await.expect("the file can be written");
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Debian's server of SSH.
const SSHD: &str = "/usr/sbin/sshd";
/// The directory to which a server of root's changes; the system makes it when it starts its own.
const SSHD_ROOM: &str = "/run/sshd";

/// Installs the server where it is missing and nothing would start one for everybody besides.
fn install_sshd() -> Result<(), String> {
    let root = rustix::process::geteuid().is_root();
    if !Path::new(SSHD).exists() {
        if !root || Path::new("/run/systemd/system").exists() {
            return Err("no sshd is installed (Debian: openssh-server)".to_owned());
        }
        eprintln!("installing openssh-server with apt-get");
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--quiet", "--yes", "--no-install-recommends"]);
        // Debian's scripts start no service at this level.
        run(apt
            .arg("openssh-server")
            .env("RUNLEVEL", "1")
            .stdout(Stdio::null()))?;
    }
    if root {
        fs::create_dir_all(SSHD_ROOM).map_err(|e| format!("{SSHD_ROOM}: {e}"))?;
    }
    Ok(())
}

/// Copies the file with `scp` through an `sshd` that is started for it, with keys of its own.
pub(crate) fn scp(file: &Path, copy: &Path) -> Result<Cost, String> {
    let sshd = Path::new(SSHD);
    install_sshd()?;
    let _ = fs::remove_file(copy);
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    for key in ["host", "user"] {
        run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]))?;
    }

    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let port = listener.local_addr().map_err(|e| e.to_string())?.port();
    drop(listener);
    let options = [
        format!("Port={port}"),
        format!("HostKey={}", path("host")),
        format!("AuthorizedKeysFile={}", path("user.pub")),
        format!("PidFile={}", path("pid")),
        "ListenAddress=127.0.0.1".to_owned(),
        "StrictModes=no".to_owned(),
        "UsePAM=no".to_owned(),
        "PermitRootLogin=yes".to_owned(),
        "Subsystem=sftp internal-sftp".to_owned(),
    ];
    let mut server = Command::new(sshd);
    server.args(["-D", "-f", "/dev/null"]);
    server.args(options.iter().flat_map(|option| ["-o", option]));
    let mut server = server
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let copied = through(&mut server, port, &path("user"), file, copy);
    let _ = server.kill();
    let _ = server.wait();
    copied
}

fn through(
    server: &mut Child,
    port: u16,
    key: &str,
    file: &Path,
    copy: &Path,
) -> Result<Cost, String> {
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > deadline || server.try_wait().is_ok_and(|ended| ended.is_some()) {
            return Err("sshd does not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }

    let mut scp = Command::new("scp");
    scp.args([
        "-q",
        "-P",
        &port.to_string(),
        "-i",
        key,
        "-o",
        "BatchMode=yes",
    ]);
    scp.args([
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]);
    scp.args(["-o", "LogLevel=ERROR"]).arg(file);
    scp.arg(format!("127.0.0.1:{}", copy.display()));
    let mut done = Ok(());
    let before = tests::children_processor_s(server.id());
    let mut spent = cost(&[("scp and ssh", 0)], || done = run(&mut scp));
    done?;

    // What serves a connection is counted at its server once it has ended.
    let serving = format!("/proc/{0}/task/{0}/children", server.id());
    while fs::read_to_string(&serving).is_ok_and(|children| !children.is_empty()) {
        if Instant::now() > deadline {
            return Err("sshd goes on after its connection".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    spent
        .cpu_s
        .push(("sshd", tests::children_processor_s(server.id()) - before));
    Ok(spent)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
