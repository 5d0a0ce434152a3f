import Observation
import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

// The example of the document on view models with states: a list of movies that is loaded when its
// view appears, from an injected service.

@MainActor
@Suite("A view model that loads", .stallLimit(.seconds(60)))
struct MoviesListTests {
  private typealias Model = LoadableViewModel<MoviesList>

  private func model(
    _ service: StubMovies, parameters: MovieParameters = MovieParameters()
  ) async -> Model {
    await Services.with(service.services) { Model(MoviesList.self, parameters: parameters) }
  }

  /// Waits until the model is in a state that satisfies the predicate, as its observers see it.
  private func wait(_ model: Model, until isWanted: (MoviesList.State) -> Bool) async {
    while true {
      let (changes, change) = AsyncStream.makeStream(of: Void.self)
      let state = withObservationTracking {
        model.state
      } onChange: {
        change.yield()
      }
      if isWanted(state) { return }
      var iterator = changes.makeAsyncIterator()
      // The stream ends only if the test is cancelled.
      guard await iterator.next() != nil else { return }
    }
  }

  @Test("A view model loads when it appears and discards its data when it disappears")
  func appears() async {
    let service = StubMovies()
    let model = await model(service)
    var calls = service.calls.makeAsyncIterator()
    #expect(model.state == .start)
    model.onAppear()
    #expect(await calls.next() == .asked(page: 1))
    await wait(model) { $0 == .loading(1) }
    await service.answer(1)
    await wait(model) { $0 == .loaded(StubMovies.movies) }
    model.onDisappear()
    await wait(model) { $0 == .start }
    #expect(model.state.isStable)
  }

  @Test(
    "A view model loads when its program becomes active, and cancels the load in the background")
  func active() async {
    let service = StubMovies()
    let model = await model(service)
    var calls = service.calls.makeAsyncIterator()
    model.onActive()
    #expect(await calls.next() == .asked(page: 1))
    model.onBackground()
    #expect(await calls.next() == .cancelled(page: 1))
    await wait(model) { $0 == .start }
  }

  @Test(
    "An event that ends a load cancels the request to the service",
    arguments: [
      LoadEvent<Int, [Movie]>.onDisappear, .onBackground, .onReset,
    ] as [MoviesList.Event])
  func cancels(event: MoviesList.Event) async {
    let service = StubMovies()
    let model = await model(service)
    var calls = service.calls.makeAsyncIterator()
    model.onAppear()
    #expect(await calls.next() == .asked(page: 1))
    model.send(action: event)
    #expect(await calls.next() == .cancelled(page: 1))
    await wait(model) { $0 == .start }
  }

  @Test("Loading another page cancels the load in progress")
  func another() async {
    let service = StubMovies()
    let model = await model(service)
    var calls = service.calls.makeAsyncIterator()
    model.onAppear()
    #expect(await calls.next() == .asked(page: 1))
    model.send(action: .load(2))
    // Page 1 is cancelled and page 2 is requested, in any order.
    let two = [await calls.next(), await calls.next()]
    #expect(two.contains(.cancelled(page: 1)) && two.contains(.asked(page: 2)))
    await service.answer(2)
    await wait(model) { $0 == .loaded(StubMovies.movies) }
  }

  @Test("A failed load is shown, and a retry loads the same page again")
  func retry() async {
    let service = StubMovies()
    let model = await model(service)
    var calls = service.calls.makeAsyncIterator()
    model.send(action: .load(2))
    #expect(await calls.next() == .asked(page: 2))
    await service.fail(2, LoadFailure("the line is dead"))
    await wait(model) { $0 == .failedLoaded(2, LoadFailure("the line is dead")) }
    model.send(action: .onRetry)
    #expect(await calls.next() == .asked(page: 2))
    await service.answer(2)
    await wait(model) { $0 == .loaded(StubMovies.movies) }
  }

  @Test(
    "A load fails at its time limit, whether or not the service reacts to cancellation",
    arguments: [true, false])
  func timeLimit(listens: Bool) async {
    let service = StubMovies(listens: listens)
    await withManualClock { clock in
      let model = await model(service)
      var calls = service.calls.makeAsyncIterator()
      model.onAppear()
      #expect(await calls.next() == .asked(page: 1))
      await clock.waitForSleepers()
      await clock.advance(by: .milliseconds(9_999))
      #expect(model.state == .loading(1))
      await clock.advance(by: .milliseconds(1))
      await wait(model) { $0 == .failedLoaded(1, LoadFailure("timed out after 10 s")) }
      #expect(await calls.next() == .cancelled(page: 1))
    }
    if !listens { await service.answer(1) }
  }

  @Test("A released view model cancels its load")
  func forgotten() async {
    let service = StubMovies()
    var model: Model? = await model(service)
    var calls = service.calls.makeAsyncIterator()
    model?.onAppear()
    #expect(await calls.next() == .asked(page: 1))
    model = nil
    #expect(await calls.next() == .cancelled(page: 1))
  }

  @Test("A loading machine uses its own service if none was injected")
  func ownService() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    var parameters = MovieParameters()
    parameters.path = try directory.write(
      #"[{"id":1,"title":"M","year":1931}]"#, to: "movies.json")
    let model = Model(MoviesList.self, parameters: parameters)
    model.onAppear()
    await wait(model) { $0 == .loaded(StubMovies.movies) }
  }
}
