import PipeMachines

/// Sends events to a node, one after the other in the order given. What waits when it is let go of is sent
/// all the same.
final class RemoteSender<Event: MachineEvent>: Sendable {
  typealias Answer = @Sendable (Result<RequestOutcome, any Error>) -> Void

  private let posts: AsyncStream<(event: Event, answer: Answer)>.Continuation

  init(_ send: @escaping @Sendable (Event) async throws -> RequestOutcome) {
    let (stream, posts) = AsyncStream.makeStream(of: (event: Event, answer: Answer).self)
    self.posts = posts
    Task {
      for await (event, answer) in stream {
        do { answer(.success(try await send(event))) } catch { answer(.failure(error)) }
      }
    }
  }

  deinit { posts.finish() }

  /// - Parameter answer: Called once.
  func post(_ event: Event, answer: @escaping Answer) { posts.yield((event, answer)) }
}
