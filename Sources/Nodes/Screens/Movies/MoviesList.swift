import PipeRuntime

/// A list of movies, of which one page is loaded while it is shown.
package enum MoviesList: LoadableMachine {
  package typealias Parameters = MovieParameters

  /// Loads with the service that it finds.
  private struct Loader: Sendable {
    @Injected var service: any MovieService

    func load(page: Int) async throws -> [Movie] {
      try await service.fetchMovies(page: page).results
    }
  }

  package static func first(_ parameters: MovieParameters) -> Int { 1 }

  package static func load(_ page: Int, _ parameters: MovieParameters) async throws -> [Movie] {
    try await Loader().load(page: page)
  }

  package static func timeLimit(_ parameters: MovieParameters) -> Duration? {
    .milliseconds(parameters.timeLimit)
  }

  package static func services(_ parameters: MovieParameters) -> Services { parameters.services }
}
