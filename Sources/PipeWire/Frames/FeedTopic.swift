import PipeSupport

/// What a subscription to a feed asks for: how the frames that it takes begin.
///
/// A feed publishes a kind only where a topic names it. One that is shorter than a kind, the empty one
/// too, asks for every state.
package enum FeedTopic: Hashable, Sendable {
  /// Every state, in order; or only those of steps that a coordinator has committed, or has not.
  case states(areCommitted: Bool?)
  /// Summaries of all that the feed tells of, or of one node.
  case summaries(of: String?)
  /// The steps of all that the feed tells of, or of one node.
  case steps(of: String?)
  /// The events that all nodes of the feed have refused or postponed, or that one node has.
  case refusals(of: String?)
  /// The events of the pipes that lead from the node, or of one of them.
  case tap(pipe: String?)

  /// Set in frames of states that a coordinator has committed.
  package static let committedFlag: UInt8 = 1

  package var bytes: [UInt8] {
    switch self {
    case .states(let areCommitted):
      Self.start(of: .state) + (areCommitted.map { [$0 ? Self.committedFlag : 0] } ?? [])
    case .summaries(let node): Self.start(of: .summary, about: node)
    case .steps(let node): Self.start(of: .step, about: node)
    case .refusals(let node): Self.start(of: .refusal, about: node)
    case .tap(let pipe): Self.start(of: .tap, about: pipe)
    }
  }

  /// How frames of a kind begin.
  private static func start(of kind: FrameKind) -> [UInt8] {
    [FrameHeader.magic, FrameHeader.version, kind.rawValue]
  }

  private static func start(of kind: FrameKind, about name: String?) -> [UInt8] {
    guard let name else { return start(of: kind) }
    return start(of: kind) + [0] + withUnsafeBytes(of: number(of: name).littleEndian, Array.init)
  }

  /// What stands for a name in the `count` of a frame: the 32-bit FNV-1a hash of its UTF-8. Two names may
  /// have the same; the body has the name.
  package static func number(of name: String) -> UInt32 { FNV.hash(of: name) }

  /// Whether a subscription asks for its frames, or for some of them.
  package func isAsked(by subscription: [UInt8]) -> Bool {
    if case .states = self {} else if subscription.count < 3 { return false }
    let own = bytes
    return own.starts(with: subscription.prefix(own.count))
  }
}

/// What the subscribers of a feed ask for, together.
package struct FeedSubscriptions: Sendable {
  private var topics: Set<[UInt8]> = []

  package init() {}

  /// Takes a message of an XPUB: a byte, 1 for a subscription and 0 for the end of the last one of its kind,
  /// and the topic.
  /// - Returns: The topic of a subscription, a repeated one too; `nil` for anything else.
  package mutating func take(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
    guard let first = message.first else { return nil }
    let topic = Array(message.dropFirst())
    switch first {
    case 1:
      topics.insert(topic)
      return topic
    case 0: topics.remove(topic)
    default: break
    }
    return nil
  }

  /// Whether somebody asks for the frames of a topic, or for some of them.
  package func ask(for topic: FeedTopic) -> Bool { topics.contains { topic.isAsked(by: $0) } }

  /// How many messages may wait at a node for one subscriber. It bounds what a stopped one costs of memory.
  package static let room: Int32 = 10_000
}
