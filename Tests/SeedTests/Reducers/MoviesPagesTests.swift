import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

// The examples of the document on state machines given by a function, with feedback.

@Suite("The list that grows page by page", .stallLimit(.seconds(60)))
struct MoviesPagesTests {
  private typealias Run = AsyncStateMachineSequence<MoviesPages.State, MoviesPages.Event, Never>

  private func run(_ service: StubMovies) async -> Run {
    await Services.with(service.services) {
      Run(
        stateMachine: MoviesPages.stateMachine(MovieParameters()),
        runtime: MoviesPages.runtime(MovieParameters(), Ports()))
    }
  }

  @Test("The end of the list fetches the next page until the last page is loaded")
  func pages() async {
    let service = StubMovies()
    let run = await run(service)
    var calls = service.calls.makeAsyncIterator()
    for page in 1...3 {
      #expect(await run.send(.fetchNext).state?.nextPage == page)
      #expect(await calls.next() == .asked(page: page))
      await service.answer(page)
      for await state in run where state.movies.count == page && state.status == .idle { break }
    }
    #expect(run.state.isComplete)
    #expect(await run.send(.fetchNext) == .refused(.thrown("there is no further page")))
    #expect(run.state.movies.count == 3)
  }

  @Test("A page is fetched once, however often the end of the list is reached")
  func once() async {
    let service = StubMovies()
    let run = await run(service)
    var calls = service.calls.makeAsyncIterator()
    await run.send(.fetchNext)
    #expect(await run.send(.fetchNext) == .refused(.noTransition))
    #expect(await calls.next() == .asked(page: 1))
    await service.answer(1)
    for await state in run where state.movies.count == 1 { break }
    await run.send(.fetchNext)
    #expect(await calls.next() == .asked(page: 2))
    await service.answer(2)
    for await state in run where state.movies.count == 2 { break }
  }

  @Test("If a page cannot be fetched, the loaded movies stay, and a retry fetches the page again")
  func retry() async {
    let service = StubMovies()
    let run = await run(service)
    var calls = service.calls.makeAsyncIterator()
    #expect(
      await run.send(.retry)
        == .refused(.thrown("no page has failed to load; nothing to retry")))
    await run.send(.fetchNext)
    #expect(await calls.next() == .asked(page: 1))
    await service.fail(1, LoadFailure("no line"))
    for await state in run where state.status == .failed(LoadFailure("no line")) { break }
    #expect(await run.send(.fetchNext) == .refused(.noTransition))
    #expect(await run.send(.retry).state?.nextPage == 1)
    #expect(await calls.next() == .asked(page: 1))
    await service.answer(1)
    for await state in run where state.movies.count == 1 { break }
  }

  @Test("A reducer that throws refuses its event with the error and changes nothing")
  func throwing() async {
    struct Broken: Error, CustomStringConvertible { let description = "it is broken" }
    enum Step: DSLCompatible { case good, bad }
    struct Count: DSLCompatible, Equatable { var count = 0 }
    let machine = StateMachine<Count, Step, Never>(
      initial: Count(),
      reducer: { state, event in
        state.count += 1
        if case .bad = event { throw Broken() }
      })
    #expect(machine.reduce(Count(), .bad) == .refused(.thrown("it is broken")))
    let run = AsyncStateMachineSequence(stateMachine: machine)
    #expect(await run.send(.bad) == .refused(.thrown("it is broken")))
    #expect(await run.send(.good) == .accepted(Count(count: 1)))
  }

  @Test("A machine describes the fields of its struct state")
  func described() throws {
    let description = try MoviesPages.describe(MovieParameters())
    #expect(description.states.isEmpty)
    #expect(
      description.stateFields == [
        .init(name: "batch", type: "Optional<MovieBatch>"),
        .init(name: "movies", type: "Array<Movie>"), .init(name: "status", type: "Status"),
      ])
    #expect(description.alphabet == ["didLoad", "didFail", "fetchNext", "retry"])
    let fields = description.stateFields?.map(\.name)
    #expect(description.initial.stateText(fields: fields) == "(movies: [], status: idle)")
  }
}

extension SendOutcome {
  fileprivate var state: State? { if case .accepted(let state) = self { state } else { nil } }
}
