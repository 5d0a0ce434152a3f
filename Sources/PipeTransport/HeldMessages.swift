import PipeSupport
import PipeWire

/// A queue of messages that may be sent only after other processes have recorded the messages'
/// causes. Messages are sent in order, each through its own socket.
///
/// A cause is a step report that this process has sent to another process. The reports to each
/// receiver are numbered. An array of cause numbers contains one number for each receiver. Only one
/// thread uses the queue and its sockets.
package final class HeldMessages {
  private struct Message {
    let socket: Socket
    let header: FrameHeader
    let body: [UInt8]
    let peer: [UInt8]?
  }

  /// Messages that wait for the same causes.
  private struct Batch {
    /// For each receiver of step reports, the number of the last report that the receiver must have
    /// recorded.
    let causeNumbers: [UInt64]
    var messages: [Message]
  }

  private let latestCauseNumbers: () -> [UInt64]
  private let recordedCauseNumbers: () -> [UInt64]
  private var batches = Queue<Batch>()
  /// The newest batch. New messages are added to this batch until the process sends another step
  /// report.
  private var newestBatch: Batch?

  /// The kinds of frames that are never held back, because they depend on no step. If a handshake
  /// were delayed, each end would consider the other end lost.
  private static let handshakeKinds: [FrameKind] = [.open, .welcome, .join]

  /// The cause numbers that the first message waits for; `nil` if the queue is empty.
  package var awaitedCauseNumbers: [UInt64]? { (batches.first ?? newestBatch)?.causeNumbers }

  /// - Parameters:
  ///   - latestCauseNumbers: Returns, for each receiver, the number of the last report sent.
  ///   - recordedCauseNumbers: Returns, for each receiver, the number of the last report that the
  ///     receiver has recorded.
  package init(
    latestCauseNumbers: @escaping () -> [UInt64], recordedCauseNumbers: @escaping () -> [UInt64]
  ) {
    self.latestCauseNumbers = latestCauseNumbers
    self.recordedCauseNumbers = recordedCauseNumbers
  }

  /// Queues a message if one of its causes is not recorded yet.
  /// - Returns: Whether the message was queued. If not, the caller sends the message.
  func holdBack(
    _ header: FrameHeader, _ body: [UInt8], to peer: [UInt8]?, of socket: Socket
  ) -> Bool {
    if Self.handshakeKinds.contains(header.kind) { return false }
    let causeNumbers = latestCauseNumbers()
    if newestBatch == nil, Self.areRecorded(causeNumbers, recordedCauseNumbers()) { return false }
    let message = Message(socket: socket, header: header, body: body, peer: peer)
    if newestBatch?.causeNumbers == causeNumbers {
      newestBatch?.messages.append(message)
    } else {
      if let newestBatch { batches.append(newestBatch) }
      newestBatch = Batch(causeNumbers: causeNumbers, messages: [message])
    }
    return true
  }

  /// Sends the queued messages whose causes have been recorded.
  package func release() {
    let recorded = recordedCauseNumbers()
    while let batch = batches.first ?? newestBatch, Self.areRecorded(batch.causeNumbers, recorded) {
      if batches.popFirst() == nil { newestBatch = nil }
      for message in batch.messages {
        message.socket.transmit(message.header, message.body, to: message.peer)
      }
    }
  }

  private static func areRecorded(_ causeNumbers: [UInt64], _ recorded: [UInt64]) -> Bool {
    zip(causeNumbers, recorded).allSatisfy { $0 <= $1 }
  }
}
