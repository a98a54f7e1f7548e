use super::*;
use crate::stream::USUAL_HEADER;
use std::sync::atomic::Ordering;
use std::task::Context;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Times that are short enough for a test, and differ enough to be distinguished on a busy machine.
const SHORT: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(5);

/// A request without its body, for which the server waits.
const BUSY: &str = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";

fn limits() -> Limits {
    Limits {
        header: SHORT,
        idle: SHORT,
        write: SHORT,
        header_bytes: 2048,
        connections: 64,
        speaks_for_many: SpeaksForMany::default(),
        counts: Arc::default(),
        stop: PATIENCE,
    }
}

struct TestListener {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl TestListener {
    async fn start(limits: Limits) -> TestListener {
        TestListener::start_with(limits, Arc::new(AtomicUsize::new(HEADERS_TOGETHER))).await
    }

    async fn start_with(limits: Limits, headers: Arc<AtomicUsize>) -> TestListener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(super::ListenerState::new(handle, limits, headers).serve(listener, stopped));
        TestListener { address, stop, served }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Returns the bytes that a new connection reads until the server closes it.
    async fn fetch(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        read_all(&mut stream).await
    }
}

async fn handle(request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let text = match head.uri.path() {
        "/panic" => panic!("as the test wants it"),
        "/peer" => peer.ip().to_string(),
        "/slow" => {
            // The answer takes longer than the tests need to stop the server.
            tokio::time::sleep(SHORT).await;
            "slow but done".into()
        }
        "/huge" => "x".repeat(64 * 1024 * 1024),
        _ => match read_body(body, 100, SHORT).await {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(error) => format!("{error:?}"),
        },
    };
    Response::new(Full::from(text))
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    let _ = end.expect("the server closes the connection");
    String::from_utf8(text).unwrap()
}

fn post(length: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{length}\r\n\r\n{body}")
}

#[tokio::test]
async fn requests_are_answered_on_one_connection() {
    let server = TestListener::start(limits()).await;
    let twice = "GET /peer HTTP/1.1\r\nhost: a\r\n\r\nGET /peer HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(server.fetch(twice).await.matches("127.0.0.1").count(), 2);
}

#[tokio::test]
async fn silent_half_sent_and_idle_connections_end() {
    let server = TestListener::start(limits()).await;
    let started = Instant::now();
    assert_eq!(server.fetch("").await, "");
    assert_eq!(server.fetch("GET / HTTP/1.1\r\nhost: a\r\nx-half").await, "");
    assert!(server.fetch("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.ends_with("0 bytes"));
    let elapsed = started.elapsed();
    assert!(elapsed >= 3 * SHORT && elapsed < PATIENCE, "{elapsed:?}");
}

#[tokio::test]
async fn an_idle_connection_has_more_time_than_a_header() {
    let server = TestListener::start(Limits { idle: PATIENCE, ..limits() }).await;
    let mut stream = server.connect().await;
    for _ in 0..2 {
        stream.write_all(b"GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        let count = stream.read(&mut answer).await.unwrap();
        assert!(answer[..count].ends_with(b"127.0.0.1"));
        // The wait is longer than a header may take.
        tokio::time::sleep(2 * SHORT).await;
    }
    let started = Instant::now();
    stream.write_all(b"GET /peer HTTP/1.1\r\nhost").await.unwrap();
    assert_eq!(read_all(&mut stream).await, "");
    assert!(started.elapsed() >= SHORT && started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_connection_idles_after_an_answer_that_took_long() {
    let server = TestListener::start(Limits { header: 10 * PATIENCE, ..limits() }).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.ends_with("slow but done"));
}

#[tokio::test]
async fn new_connections_replace_idle_ones() {
    for nobody_is_bounded in [true, false] {
        let speaks_for_many = SpeaksForMany::new(move |_| nobody_is_bounded);
        let patient = Limits { header: PATIENCE * 4, idle: PATIENCE * 4, ..limits() };
        let server = TestListener::start(Limits { connections: 40, speaks_for_many, ..patient }).await;
        let mut idle = Vec::new();
        // There are more connections than permits, or than half of them: the first ones have ended when the last ones arrive.
        for _ in 0..100 {
            let mut stream = server.connect().await;
            stream.write_all(b"GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            let mut answer = [0; 1024];
            let count = stream.read(&mut answer).await.unwrap();
            assert!(answer[..count].ends_with(b"127.0.0.1"), "{}", String::from_utf8_lossy(&answer[..count]));
            idle.push(stream);
        }
        let mut open = 0;
        for stream in &mut idle {
            let ended = tokio::time::timeout(Duration::from_millis(5), stream.read(&mut [0])).await;
            open += usize::from(ended.is_err());
        }
        assert_eq!(open, if nobody_is_bounded { 40 } else { 20 });
    }
}

#[tokio::test]
async fn a_connection_on_which_an_answer_is_still_made_is_not_idle() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slowly_made = async |_: Request<Incoming>, _: SocketAddr| {
        let (producer, content) = crate::content::pieces(None);
        tokio::spawn(async move {
            for _ in 0..6 {
                producer.send("piece").await.unwrap();
                // Six pieces take longer than a connection may be idle.
                tokio::time::sleep(SHORT / 2).await;
            }
            producer.finish().await;
        });
        Response::new(content)
    };
    tokio::spawn(serve(listener, slowly_made, Limits { connections: 1, ..limits() }, std::future::pending::<()>()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    stream.readable().await.unwrap();
    let mut second_stream = TcpStream::connect(address).await.unwrap();
    assert!(read_all(&mut second_stream).await.starts_with("HTTP/1.1 503 "));
    assert_eq!(read_all(&mut stream).await.matches("piece").count(), 6);
}

#[tokio::test]
async fn an_answer_that_is_still_read_is_not_cut_off_for_a_new_connection() {
    let server = TestListener::start(Limits { connections: 1, write: PATIENCE, ..limits() }).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /huge HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    slow.readable().await.unwrap();
    for _ in 0..3 {
        assert!(server.fetch("").await.starts_with("HTTP/1.1 503 "));
    }
    let answer = tokio::task::spawn(async move { read_all(&mut slow).await });
    assert!(answer.await.unwrap().len() > 64 * 1024 * 1024);
}

#[tokio::test]
async fn a_dripping_header_ends_as_well() {
    let server = TestListener::start(limits()).await;
    let mut stream = server.connect().await;
    let started = Instant::now();
    while stream.write_all(b"G").await.is_ok() {
        // The client is slow.
        tokio::time::sleep(SHORT / 20).await;
        assert!(started.elapsed() < PATIENCE, "the server closes the connection");
    }
}

#[tokio::test]
async fn bodies_are_read_within_their_limit() {
    let server = TestListener::start(limits()).await;
    assert!(server.fetch(&post("content-length: 5", "hello")).await.ends_with("5 bytes"));
    let chunked = "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    assert!(server.fetch(&post("transfer-encoding: chunked", chunked)).await.ends_with("11 bytes"));
    let large = format!("65\r\n{}\r\n0\r\n\r\n", "x".repeat(0x65));
    assert!(server.fetch(&post("transfer-encoding: chunked", &large)).await.ends_with("TooLarge"));
    assert!(server.fetch(&post("transfer-encoding: chunked", "x\r\n")).await.ends_with("Broken"));
    // The body is announced, not sent: the refusal does not wait for it.
    assert!(server.fetch(&post("content-length: 101", "")).await.ends_with("TooLarge"));
    assert!(server.fetch(&post("expect: 100-continue\r\ncontent-length: 101", "")).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_still_sends_reads_the_refusal() {
    let server = TestListener::start(limits()).await;
    let length = 20 * 1024 * 1024;
    let answer = server.fetch(&post(&format!("content-length: {length}"), &"x".repeat(length))).await;
    assert!(answer.ends_with("TooLarge"), "{answer}");
}

#[tokio::test]
async fn a_body_that_stalls_or_drips_ends() {
    let server = TestListener::start(limits()).await;
    assert!(server.fetch(&post("content-length: 50", "half")).await.ends_with("Slow"));

    let mut stream = server.connect().await;
    stream.write_all(post("content-length: 100", "").as_bytes()).await.unwrap();
    let started = Instant::now();
    let (mut receiving, mut sending) = stream.split();
    let drip = async {
        while sending.write_all(b"x").await.is_ok() {
            // The client is slow.
            tokio::time::sleep(SHORT / 20).await;
        }
    };
    let mut answer = [0; 15];
    tokio::select! {
        read = receiving.read_exact(&mut answer) => drop(read.unwrap()),
        () = drip => panic!("the server answers before it closes"),
    }
    assert!(started.elapsed() >= SHORT && started.elapsed() < PATIENCE);
}

#[tokio::test]
async fn a_body_that_keeps_its_pace_may_take_longer() {
    let (sender, body) = DrippingBody::new();
    let timeout = Duration::from_millis(200);
    let reading = tokio::spawn(async move { read_body(body, 10_000, timeout).await });
    for _ in 0..8 {
        sender.send(Bytes::from(vec![0; 512])).unwrap();
        // Eight pieces take longer than the time limit of one.
        tokio::time::sleep(timeout / 4).await;
    }
    drop(sender);
    assert_eq!(reading.await.unwrap().unwrap().len(), 4096);
}

#[tokio::test]
async fn a_wait_that_is_not_the_clients_does_not_end_its_body() {
    for (extended, outcome) in [(true, Ok(Some(Bytes::from("late")))), (false, Err(BodyError::Slow))] {
        let (sender, body) = DrippingBody::new();
        let timeout = Duration::from_millis(200);
        let mut reader = BodyReader::new(body, 100, timeout).unwrap();
        // The time limit passes before the body is read.
        tokio::time::sleep(timeout).await;
        if extended {
            reader.extend(timeout);
        }
        tokio::spawn(async move {
            // The body arrives within the extended time limit.
            tokio::time::sleep(timeout / 4).await;
            let _ = sender.send(Bytes::from("late"));
        });
        assert_eq!(reader.chunk().await, outcome);
    }
}

struct DrippingBody(tokio::sync::mpsc::UnboundedReceiver<Bytes>);

impl DrippingBody {
    fn new() -> (tokio::sync::mpsc::UnboundedSender<Bytes>, DrippingBody) {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        (sender, DrippingBody(receiver))
    }
}

impl Body for DrippingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(hyper::body::Frame::data(bytes))))
    }
}

#[tokio::test]
async fn an_answer_that_nobody_reads_ends() {
    let server = TestListener::start(Limits { connections: 1, ..limits() }).await;
    let mut deaf = server.connect().await;
    deaf.write_all(b"GET /huge HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    // Its permit is free again although the client never closes.
    let started = Instant::now();
    loop {
        // The test kit depends on this crate, so this test polls by a loop of its own.
        tokio::time::sleep(SHORT / 4).await;
        if server.fetch("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.ends_with("0 bytes") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "the server gives up on the deaf client");
    }
}

#[tokio::test]
async fn a_header_that_is_too_long_is_refused() {
    let server = TestListener::start(limits()).await;
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(200_000));
    assert!(server.fetch(&long).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn a_panic_is_answered_and_others_go_on() {
    let server = TestListener::start(limits()).await;
    let mut second_stream = server.connect().await;
    second_stream.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = server.fetch("GET /panic HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(answer.ends_with(r#"{"detail":"A server error occurred."}"#), "{answer}");
    assert!(read_all(&mut second_stream).await.ends_with("slow but done"));
}

#[tokio::test]
async fn a_peer_leaves_half_of_the_connections_to_others() {
    let nobody = SpeaksForMany::new(|_| false);
    let server =
        TestListener::start(Limits { connections: 4, speaks_for_many: nobody, header: PATIENCE, ..limits() }).await;
    let from = async |peer: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{peer}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        // A connection that waits for a body is not idle.
        let write_result = stream.write_all(BUSY.as_bytes()).await;
        let mut answer = [0; 12];
        let read_result = stream.read_exact(&mut answer).await;
        // A refused client may get a connection reset before it has read the reason.
        let is_served = write_result.is_ok() && read_result.is_ok() && &answer == b"HTTP/1.1 100";
        (is_served, stream)
    };
    let first = [from("127.0.0.2").await, from("127.0.0.2").await, from("127.0.0.2").await];
    assert_eq!(first.each_ref().map(|(is_served, _)| *is_served), [true, true, false]);
    let other_peer = from("127.0.0.3").await;
    assert!(other_peer.0, "another peer is served");
    let [first_permit, ..] = first;
    drop(first_permit);
    let started = Instant::now();
    while !from("127.0.0.2").await.0 {
        assert!(started.elapsed() < PATIENCE, "a place that is given back is there again");
    }
}

#[tokio::test]
async fn long_headers_share_their_room_until_they_are_answered() {
    let bytes_left = Arc::new(AtomicUsize::new(1000));
    let (first, second) = (ConnectionState::new(bytes_left.clone()), ConnectionState::new(bytes_left.clone()));
    assert!(first.grow(USUAL_HEADER) && first.grow(400) && second.grow(USUAL_HEADER + 600));
    assert!(!first.grow(1) && second.bytes.load(Ordering::Relaxed) == USUAL_HEADER + 600);
    second.mark_complete();
    assert!(second.grow(1_000_000), "a body is not a header");
    assert!(!first.grow(1), "it is held while the request is answered");
    second.mark_answered();
    assert!(first.grow(1) && second.grow(USUAL_HEADER));
    drop((first, second));
    assert_eq!(bytes_left.load(Ordering::Relaxed), 1000);
}

#[tokio::test]
async fn headers_that_have_no_room_are_closed_and_others_go_on() {
    let bytes_left = Arc::new(AtomicUsize::new(10_000));
    let server =
        TestListener::start_with(Limits { header: PATIENCE, header_bytes: 32 * 1024, ..limits() }, bytes_left.clone())
            .await;
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "x".repeat(12_000));
    let mut half_sent = server.connect().await;
    half_sent.write_all(long.as_bytes()).await.unwrap();
    while bytes_left.load(Ordering::Relaxed) == 10_000 {
        // The test kit depends on this crate, so this test polls by a loop of its own.
        tokio::time::sleep(SHORT / 40).await;
    }
    let started = Instant::now();
    let mut over = server.connect().await;
    let _ = over.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, over.read_to_end(&mut answer)).await.expect("it is closed");
    assert!(answer.is_empty() && started.elapsed() < PATIENCE);
    assert!(server.fetch("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.ends_with("0 bytes"));
    half_sent.write_all(b"\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(read_all(&mut half_sent).await.ends_with("0 bytes"), "who had room is answered");
}

#[tokio::test]
async fn connections_over_the_cap_are_closed() {
    let server = TestListener::start(Limits { connections: 1, header: PATIENCE, ..limits() }).await;
    let mut first = server.connect().await;
    first.write_all(BUSY.as_bytes()).await.unwrap();
    first.readable().await.unwrap();
    let turned_away = server.fetch("").await;
    assert!(turned_away.starts_with("HTTP/1.1 503 ") && turned_away.contains("retry-after: 1"), "{turned_away}");
    let (head, body) = turned_away.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}", body.len())), "{turned_away}");
}

#[tokio::test]
async fn a_stop_finishes_what_is_in_flight_and_closes_what_idles() {
    let server = TestListener::start(Limits { header: PATIENCE * 2, ..limits() }).await;
    let mut idle = server.connect().await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    // The request is being handled by then.
    tokio::time::sleep(SHORT / 4).await;
    server.stop.send(()).unwrap();
    assert!(read_all(&mut slow).await.ends_with("slow but done"));
    assert_eq!(read_all(&mut idle).await, "");
    tokio::time::timeout(PATIENCE, server.served).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_stop_answers_one_more_request_of_an_open_connection() {
    let server = TestListener::start(Limits { header: PATIENCE * 2, ..limits() }).await;
    let mut open = server.connect().await;
    open.write_all(b"GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut first = [0; 1024];
    let length = open.read(&mut first).await.unwrap();
    assert!(!String::from_utf8_lossy(&first[..length]).contains("connection: close"));
    server.stop.send(()).unwrap();
    while TcpStream::connect(server.address).await.is_ok() {
        // The test kit depends on this crate, so this test polls by a loop of its own.
        tokio::time::sleep(SHORT / 40).await;
    }
    open.write_all(b"GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let last = read_all(&mut open).await;
    assert!(last.starts_with("HTTP/1.1 200") && last.contains("connection: close"), "{last}");
    tokio::time::timeout(PATIENCE, server.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_answers_who_is_connected_but_not_accepted_yet() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        stream.write_all(b"GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        waiting.push(stream);
    }
    let stopped = std::future::ready(());
    let served = tokio::spawn(serve(listener, handle, limits(), stopped));
    for mut stream in waiting {
        let answer = read_all(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    }
    tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let server = TestListener::start(Limits { stop: SHORT / 8, ..limits() }).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    // The request is being handled by then.
    tokio::time::sleep(SHORT / 8).await;
    server.stop.send(()).unwrap();
    assert_eq!(read_all(&mut slow).await, "");
    server.served.await.unwrap();
}
