import PipeTransport

/// A node in the same process, as another one there reaches it: without a thread between them.
struct NeighbouringNode {
  let name: String
  /// In which its endpoints are, and nowhere else.
  let context: Context
  let inbox = "inproc://inbox"
  let feed = "inproc://feed"
}

/// Where the shell of a node is: what it shares with others of its process.
struct NodePlace {
  let loop: PollLoop
  let context: Context
  /// Answers for all gates in the context; `nil` where the process is on one host with all others.
  let handler: ZapHandler?
  /// The node in whose process it lives; `nil` where it has one of its own.
  var host: NeighbouringNode?
  /// What a lodger's key file holds, where it is on another host than that; `nil` where it is none.
  var key: String?

  /// How many sockets of its peers may be in the shared context; more are in one of their own.
  var roomForPeers: Int { Int(Context.Room.few.rawValue) / (host == nil ? 2 : 4) }
}
