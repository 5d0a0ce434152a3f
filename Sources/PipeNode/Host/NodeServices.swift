import PipeTransport
import PipeWire

/// What a node's shell does for its content, on the loop's thread.
struct NodeServices {
  let loop: PollLoop
  let context: Context
  /// The node in whose process it lives; `nil` where it has one of its own.
  let host: NeighbouringNode?
  /// Where its peers are; `nil` where it is on one host with them.
  let neighbours: Neighbours?
  /// Does at once what the end of a turn does: records what was taken, and takes what waits. Returns
  /// `false` where that has ended the node.
  let finishTurn: () -> Bool
  /// Sends a frame to who is connected to the inbox, by its routing id.
  let send: (FrameHeader, [UInt8], _ peer: [UInt8]) -> Socket.Sent
  /// Cuts the connections at the inbox, as a failing network would.
  let cut: () -> Void
  /// Shows an entry to the feed's subscribers, if there are any, with the next record.
  let publish: (_ entry: () -> FeedEntry?) -> Void
}
