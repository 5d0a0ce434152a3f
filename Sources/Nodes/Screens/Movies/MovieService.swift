import PipeRuntime

package struct Movie: Codable, Hashable, Sendable {
  package var id: Int
  package var title: String
  package var year: Int

  package init(id: Int, title: String, year: Int) {
    self.id = id
    self.title = title
    self.year = year
  }
}

/// A page of movies. The first page has the number 1.
package struct MovieBatch: Codable, Hashable, Sendable {
  package var page: Int
  package var totalPages: Int
  package var results: [Movie]

  package init(page: Int, totalPages: Int, results: [Movie]) {
    self.page = page
    self.totalPages = totalPages
    self.results = results
  }
}

/// The source of the movies.
package protocol MovieService: Sendable {
  func fetchMovies(page: Int) async throws -> MovieBatch
}

/// A service that reads movies from a file, page by page.
package struct FileMovieService: MovieService {
  let file: DataFile
  let pageSize: Int
  /// The simulated response time of the service.
  let answerTime: Duration

  package func fetchMovies(page: Int) async throws -> MovieBatch {
    try await EffectClock.sleep(for: answerTime)
    guard pageSize > 0 else {
      throw LoadFailure(
        "a page cannot have \(pageSize) movies; set the parameter 'pageSize' to 1 or more")
    }
    let movies = try file.decode([Movie].self)
    let totalPages = max(1, (movies.count + pageSize - 1) / pageSize)
    guard (1...totalPages).contains(page) else {
      throw LoadFailure("no such page \(page); the pages are 1 to \(totalPages)")
    }
    return MovieBatch(
      page: page, totalPages: totalPages,
      results: Array(movies.dropFirst((page - 1) * pageSize).prefix(pageSize)))
  }
}

/// The parameters of the machines that list movies.
package struct MovieParameters: MachineParameters {
  /// The path of the file with the movies.
  package var path = "movies.json"
  /// The number of movies on a page.
  package var pageSize = 10
  /// The simulated response time of the service. Unit: milliseconds.
  package var answerTime = 0
  /// The timeout for loading a page. Unit: milliseconds.
  package var timeLimit = 10_000

  package init() {}

  /// The services for production: a ``FileMovieService``.
  var services: Services {
    let service = FileMovieService(
      file: DataFile(path), pageSize: pageSize, answerTime: .milliseconds(answerTime))
    var services = Services()
    services.register((any MovieService).self) { service }
    return services
  }
}
