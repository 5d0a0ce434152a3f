/// The receiving end of a pipe at a node's inbox.
final class InPipe {
  let name: String
  let onRefused: PipeSpecification.OnRefused
  /// The sender's routing id at the inbox.
  let peer: [UInt8]
  private(set) var state: InPipeStateMachine
  private(set) var gaps: UInt64 = 0
  private let inbox: Socket
  private let log: NodeLog

  init(_ configuration: NodeConfiguration.In, session: UInt64, inbox: Socket, log: NodeLog) {
    name = configuration.name
    onRefused = configuration.onRefused
    peer = Array(WireName.pipe(configuration.name).utf8)
    state = InPipeStateMachine(capacity: configuration.capacity, session: session)
    self.inbox = inbox
    self.log = log
  }

  func connected() { perform(state.connected()) }

  func opened(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    guard body.count == 8, header.sequence > 0 else { throw .body(.open) }
    perform(
      state.opened(
        session: header.number,
        incarnation: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)),
        first: header.sequence, lost: header.count))
  }

  /// Hands the new events of a batch to the content.
  func arrived(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, content: any NodeContent
  ) throws(FrameError) {
    let before = state
    let actions = state.arrived(
      session: header.number, first: header.sequence, count: header.count)
    for action in actions {
      guard case .take(let skipping, let first) = action else {
        perform([action])
        continue
      }
      do {
        try content.accept(
          body, count: header.count, skipping: skipping, first: first, from: self)
      } catch {
        // Nothing of it was taken: the sequence number stays where it was.
        state = before
        throw error
      }
    }
  }

  func senderSaidGoodbye(_ header: FrameHeader) { state.senderSaidGoodbye(session: header.number) }

  /// The event with this number is applied or refused for good.
  func finished(_ sequence: UInt64) {
    state.finished(sequence)
    if let header = state.acknowledgementDue() { inbox.send(header, to: peer) }
  }

  /// Says what is applied, where that is not said yet.
  func acknowledge() {
    if let header = state.acknowledgement() { inbox.send(header, to: peer) }
  }

  func close() { inbox.send(state.close(), to: peer) }

  private func perform(_ actions: [InPipeStateMachine.Action]) {
    for action in actions {
      switch action {
      case .send(let header): inbox.send(header, to: peer)
      case .report(let gap):
        gaps += 1
        log.warning("pipe '\(name)': \(gap)")
      case .take: break
      }
    }
  }
}
