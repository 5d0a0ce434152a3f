/// The sending end of a pipe: a DEALER to the receiver's inbox, and the state of the conversation.
final class OutPipe {
  let name: String
  let socket: Socket
  /// Tells of each new connection, which is to be announced to the receiver.
  let connections: ConnectionMonitor
  private(set) var state: OutPipeStateMachine
  private let log: NodeLog
  /// Events that could not be encoded, or were over the size limit.
  private(set) var unsendable: UInt64 = 0
  private(set) var lost: UInt64 = 0
  private(set) var garbage: UInt64 = 0

  init(
    _ configuration: NodeConfiguration.Out, incarnation: UInt64, context: Context, log: NodeLog
  ) throws(TransportError) {
    name = configuration.name
    state = OutPipeStateMachine(capacity: configuration.capacity, incarnation: incarnation)
    self.log = log
    socket = try Socket(.dealer, in: context)
    // Credit bounds what is under way; a high-water mark would only make sends fail.
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(WireName.pipe(name))
    // Neither ZMQ_PROBE_ROUTER, which announces only the first connection, nor with it
    // ZMQ_IMMEDIATE, which throws away what a lost connection had brought: a goodbye, say.
    connections = try ConnectionMonitor(of: socket, in: context)
    try socket.connect(configuration.endpoint)
  }

  var isFull: Bool { state.isFull }

  /// Queues the event that `write` appends; it goes out at the end of the turn.
  func enqueue(_ write: (inout [UInt8]) throws -> Void) {
    do {
      try state.enqueue { bytes in
        let start = bytes.count
        try write(&bytes)
        guard bytes.count - start <= WireLimits.eventByteCount else {
          throw EventTooLarge(byteCount: bytes.count - start)
        }
      }
    } catch {
      unsendable += 1
      log.warning("pipe '\(name)': an event was not sent: \(error)")
    }
  }

  /// Whether a stopping node need not wait for this pipe: all is applied, or nobody is there.
  var isDrained: Bool {
    if case .open = state.phase { state.pending == 0 } else { true }
  }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: name, events: state.queued, applied: state.acknowledged,
      waiting: Int(state.queued - state.sent), capacity: Int(state.capacity))
  }

  func flush() { perform(state.flush()) }

  /// Announces each new connection by an empty message.
  func readConnections() {
    connections.read { event in
      if event == .connected { socket.sendPart([], more: false) }
    }
  }

  /// Reads what the receiver says.
  func read() {
    while socket.receive({ _, bytes in
      do {
        try handle(FrameHeader(bytes))
      } catch {
        garbage += 1
        log.garbage(error, from: "the receiver of pipe '\(name)'", count: garbage)
      }
    }) {}
  }

  /// Says goodbye; the socket then goes on sending for as long as its linger says.
  func close() { perform(state.close()) }

  private func handle(_ header: FrameHeader) {
    switch header.kind {
    case .welcome:
      perform(
        state.welcomed(
          session: header.number, received: header.sequence, window: header.count))
    case .credit:
      perform(
        state.credited(session: header.number, applied: header.sequence, window: header.count))
    case .closed:
      state.receiverClosed(session: header.number, applied: header.sequence)
    default:
      garbage += 1
      log.garbage(
        FrameError.kind(header.kind.rawValue), from: "the receiver of pipe '\(name)'",
        count: garbage)
    }
  }

  private func perform(_ actions: [OutPipeStateMachine.Action]) {
    for action in actions {
      switch action {
      case .send(let header):
        socket.send(header)
      case .open(let header, let incarnation):
        socket.send(header, body: withUnsafeBytes(of: incarnation.littleEndian, Array.init))
      case .sendBatch(let batch, let session):
        socket.send(
          FrameHeader(
            .events, count: UInt32(batch.count), sequence: batch.first, number: session),
          body: batch.bytes)
      case .report(let lost, let through):
        self.lost += lost
        log.warning(
          "pipe '\(name)': up to \(lost) events through number \(through) were under way when the "
            + "receiver died, and are lost")
      }
    }
  }
}

/// An event whose JSON is over the limit.
struct EventTooLarge: Error, CustomStringConvertible {
  var byteCount: Int

  var description: String {
    "it has \(byteCount) bytes; the limit is \(WireLimits.eventByteCount). Send a reference to "
      + "large data, such as a file's path."
  }
}
