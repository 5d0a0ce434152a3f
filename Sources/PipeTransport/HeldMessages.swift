import PipeSupport
import PipeWire

/// A queue of messages that wait until other processes have recorded their causes. Each message is
/// then sent through its socket, in order.
///
/// The causes are numbered, in one sequence for each recording process. One thread owns the
/// messages and their sockets.
package final class HeldMessages {
  private struct Message {
    let socket: Socket
    let header: FrameHeader
    let body: [UInt8]
    let peer: [UInt8]?
  }

  /// Messages that wait for the same numbers.
  private struct Batch {
    let causeNumbers: [UInt64]
    var messages: [Message]
  }

  private let latest: () -> [UInt64]
  private let recorded: () -> [UInt64]
  private var batches = Queue<Batch>()
  /// The last batch, which grows until there is a new cause.
  private var last: Batch?

  /// Frames that reveal no step, and so are never kept. If they were, the two ends would consider
  /// each other lost.
  private static let handshakes: [FrameKind] = [.open, .welcome, .join]

  /// The numbers that the first message waits for; `nil` if no message waits.
  package var awaited: [UInt64]? { (batches.first ?? last)?.causeNumbers }

  /// - Parameters:
  ///   - latest: Returns the last number of each sequence.
  ///   - recorded: Returns the last recorded number of each sequence.
  package init(latest: @escaping () -> [UInt64], recorded: @escaping () -> [UInt64]) {
    self.latest = latest
    self.recorded = recorded
  }

  /// Keeps a message if a cause is not recorded yet.
  /// - Returns: Whether the message was kept.
  func holdBack(
    _ header: FrameHeader, _ body: [UInt8], to peer: [UInt8]?, of socket: Socket
  ) -> Bool {
    if Self.handshakes.contains(header.kind) { return false }
    let causeNumbers = latest()
    if last == nil, Self.areRecorded(causeNumbers, recorded()) { return false }
    let message = Message(socket: socket, header: header, body: body, peer: peer)
    if last?.causeNumbers == causeNumbers {
      last?.messages.append(message)
    } else {
      if let last { batches.append(last) }
      last = Batch(causeNumbers: causeNumbers, messages: [message])
    }
    return true
  }

  /// Sends the messages whose causes are recorded now.
  package func release() {
    let recorded = recorded()
    while let batch = batches.first ?? last, Self.areRecorded(batch.causeNumbers, recorded) {
      if batches.popFirst() == nil { last = nil }
      for message in batch.messages {
        message.socket.transmit(message.header, message.body, to: message.peer)
      }
    }
  }

  private static func areRecorded(_ causeNumbers: [UInt64], _ recorded: [UInt64]) -> Bool {
    zip(causeNumbers, recorded).allSatisfy { $0 <= $1 }
  }
}
