import PipeWire
import Testing

@Suite("Subscriptions to a feed")
struct FeedTopicTests {
  private static let version = FrameHeader.version

  /// Returns the state of a feed with these subscriptions.
  private static func subscriptions(_ topics: [[UInt8]]) -> FeedSubscriptions {
    var subscriptions = FeedSubscriptions()
    for topic in topics { take([1] + topic, into: &subscriptions) }
    return subscriptions
  }

  private static func take(_ message: [UInt8], into subscriptions: inout FeedSubscriptions) {
    _ = message.withUnsafeBytes { subscriptions.take($0) }
  }

  @Test("A topic's bytes match the protocol document")
  func golden() {
    #expect(FeedTopic.states(areCommitted: nil).bytes == [0x70, Self.version, 0x20])
    #expect(FeedTopic.states(areCommitted: false).bytes == [0x70, Self.version, 0x20, 0])
    #expect(FeedTopic.states(areCommitted: true).bytes == [0x70, Self.version, 0x20, 1])
    #expect(FeedTopic.summaries(of: nil).bytes == [0x70, Self.version, 0x21])
    let door: [UInt8] = [0x29, 0xB7, 0xF5, 0x21]
    #expect(FeedTopic.summaries(of: "door").bytes == [0x70, Self.version, 0x21, 0] + door)
    #expect(FeedTopic.steps(of: "door").bytes == [0x70, Self.version, 0x22, 0] + door)
    #expect(FeedTopic.tap(pipe: "door").bytes == [0x70, Self.version, 0x23, 0] + door)
    #expect(FeedTopic.refusals(of: "door").bytes == [0x70, Self.version, 0x24, 0] + door)
  }

  @Test("A frame begins with the topic of its kind and name")
  func frames() {
    let header = FrameHeader(
      .step, count: FeedTopic.topicNumber(of: "door"), sequence: 7, incarnationOrSession: 2)
    #expect(header.frame().starts(with: FeedTopic.steps(of: "door").bytes))
    #expect(header.frame().starts(with: FeedTopic.steps(of: nil).bytes))
    #expect(!header.frame().starts(with: FeedTopic.steps(of: "motor").bytes))
  }

  private static let topics: [FeedTopic] = [
    .states(areCommitted: false), .states(areCommitted: true), .summaries(of: "a"), .steps(of: "a"),
    .steps(of: "b"), .tap(pipe: "p"), .tap(pipe: "q"), .refusals(of: "a"),
  ]

  @Test(
    "A topic requests the frames that it names, and an incomplete topic requests states",
    arguments: [
      ([], []),
      ([0x70], [.states(areCommitted: false), .states(areCommitted: true)]),
      (
        FeedTopic.states(areCommitted: nil).bytes,
        [.states(areCommitted: false), .states(areCommitted: true)]
      ),
      (FeedTopic.states(areCommitted: false).bytes, [.states(areCommitted: false)]),
      (FeedTopic.summaries(of: nil).bytes, [.summaries(of: "a")]),
      (FeedTopic.summaries(of: "b").bytes, []),
      (FeedTopic.steps(of: nil).bytes, [.steps(of: "a"), .steps(of: "b")]),
      (FeedTopic.steps(of: "b").bytes, [.steps(of: "b")]),
      (FeedTopic.refusals(of: nil).bytes, [.refusals(of: "a")]),
      (FeedTopic.tap(pipe: "q").bytes, [.tap(pipe: "q")]),
      ([0x71, 0x20], []),
    ] as [([UInt8], [FeedTopic])])
  func asked(subscription: [UInt8], expected: [FeedTopic]) {
    // The empty array means no subscription here.
    let subscriptions = Self.subscriptions(subscription.isEmpty ? [] : [subscription])
    #expect(Self.topics.filter { subscriptions.hasSubscriber(for: $0) } == expected)
  }

  @Test("A subscription to the empty prefix requests the states")
  func everything() {
    let subscriptions = Self.subscriptions([[]])
    let asked = Self.topics.filter { subscriptions.hasSubscriber(for: $0) }
    #expect(asked == [.states(areCommitted: false), .states(areCommitted: true)])
  }

  @Test("Messages of a kind are sent until the last subscription to that kind has ended")
  func end() {
    var subscriptions = Self.subscriptions([FeedTopic.steps(of: "a").bytes])
    #expect(subscriptions.hasSubscriber(for: .steps(of: "a")))
    #expect(subscriptions.hasSubscriber(for: .steps(of: nil)))
    Self.take([0] + FeedTopic.steps(of: "b").bytes, into: &subscriptions)
    #expect(subscriptions.hasSubscriber(for: .steps(of: "a")))
    Self.take([0] + FeedTopic.steps(of: "a").bytes, into: &subscriptions)
    #expect(!subscriptions.hasSubscriber(for: .steps(of: nil)))
  }
}
