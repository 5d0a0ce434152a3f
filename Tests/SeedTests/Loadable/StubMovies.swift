import PipeRuntime
import PipeRuntimeTestKit
import Screens

/// A service whose answers come from the test, and that reports its requests.
actor StubMovies: MovieService {
  static let movies = [Movie(id: 1, title: "M", year: 1931)]

  enum Call: Equatable {
    case asked(page: Int)
    case cancelled(page: Int)
  }

  /// The requests and cancellations, in order.
  nonisolated let calls: AsyncStream<Call>
  private nonisolated let call: AsyncStream<Call>.Continuation
  private var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
  private let listens: Bool

  /// - Parameter listens: Whether a request ends when it is cancelled.
  init(listens: Bool = true) {
    (calls, call) = AsyncStream.makeStream(of: Call.self)
    self.listens = listens
  }

  func fetchMovies(page: Int) async throws -> MovieBatch {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { answer in
        waiting[page] = answer
        call.yield(.asked(page: page))
      }
    } onCancel: {
      call.yield(.cancelled(page: page))
      if listens { Task { await self.fail(page, CancellationError()) } }
    }
    return MovieBatch(page: page, totalPages: 3, results: Self.movies)
  }

  /// Answers the request for a page.
  func answer(_ page: Int) { waiting.removeValue(forKey: page)?.resume() }

  /// Answers the request for a page with an error.
  func fail(_ page: Int, _ error: any Error) {
    waiting.removeValue(forKey: page)?.resume(throwing: error)
  }

  /// A registry that contains this service.
  nonisolated var services: Services {
    var services = Services()
    services.register((any MovieService).self) { self }
    return services
  }
}
