import PipeSupport
import PipeWire

/// Messages that wait until what has led to them is recorded elsewhere; then each goes out at its socket, in order.
///
/// What is to be recorded has numbers, one sequence for each place where it is. One thread owns it, with its sockets.
package final class HeldMessages {
  private struct Message {
    let socket: Socket
    let header: FrameHeader
    let body: [UInt8]
    let peer: [UInt8]?
  }

  /// The numbers that are to be recorded first.
  private struct Batch {
    let marks: [UInt64]
    var messages: [Message]
  }

  private let latest: () -> [UInt64]
  private let recorded: () -> [UInt64]
  private var batches = Queue<Batch>()
  /// The last batch, which grows until there is something more to record.
  private var last: Batch?

  /// What tells of no step: without it two ends would take each other for lost.
  private static let handshakes: [FrameKind] = [.open, .welcome, .join]

  /// The numbers that the first message waits for; `nil` where none waits.
  package var awaited: [UInt64]? { (batches.first ?? last)?.marks }

  /// - Parameters:
  ///   - latest: Returns the last number of each sequence.
  ///   - recorded: Returns of each the last that is recorded.
  package init(latest: @escaping () -> [UInt64], recorded: @escaping () -> [UInt64]) {
    self.latest = latest
    self.recorded = recorded
  }

  /// Keeps a message, if something is still to be recorded.
  /// - Returns: Whether it did.
  func keeps(
    _ header: FrameHeader, _ body: [UInt8], to peer: [UInt8]?, of socket: Socket
  ) -> Bool {
    if Self.handshakes.contains(header.kind) { return false }
    let marks = latest()
    if last == nil, Self.reached(marks, recorded()) { return false }
    let message = Message(socket: socket, header: header, body: body, peer: peer)
    if last?.marks == marks {
      last?.messages.append(message)
    } else {
      if let last { batches.append(last) }
      last = Batch(marks: marks, messages: [message])
    }
    return true
  }

  /// More is recorded: sends what waited for no more than that.
  package func release() {
    let recorded = recorded()
    while let batch = batches.first ?? last, Self.reached(batch.marks, recorded) {
      if batches.popFirst() == nil { last = nil }
      for message in batch.messages {
        message.socket.transmit(message.header, message.body, to: message.peer)
      }
    }
  }

  private static func reached(_ marks: [UInt64], _ recorded: [UInt64]) -> Bool {
    zip(marks, recorded).allSatisfy { $0 <= $1 }
  }
}
