import Foundation
import PipeRuntime
import PipeRuntimeTestKit
import Testing

// Every public name, in a file that imports Foundation. `Pipe` is omitted, because Foundation has a type of
// that name; with Foundation, the type is called `EventPipe`. `Binding` and `NavigationStack` are aliases of
// `ValueBinding` and `RouteStack` on platforms without SwiftUI.

private typealias Names<
  State: MachineState & StateProtocol & Hashable,
  Event: MachineEvent & BindableAction & FailureEvent,
  Output: MachineOutput,
  Tab: CaseIterable & Hashable & Sendable
> = (
  (any DSLCompatible, any MachineState, any MachineEvent, any MachineOutput, any StateProtocol),
  (any BindableAction, any FailureEvent, any MachineParameters, any LifecycleProtocol),
  (any Machine.Type, any CompositeState.Type, any NodeProgram.Type, any Monitor.Type),
  (any ParameterizedMonitor.Type, StopPolicy, StopSignal, LogRetention, JournalRetention),
  (any TerminalView.Type, any _Hosting, any _HostedMachine, any _Hostable.Type),
  (
    StateMachine<State, Event, Output>, When<State, Event, Output>, On<State, Event>, Guard,
    Transition<State>, Execute<Output>, OneOf<Event>, Transitions<State, Event>
  ),
  (
    ExecuteBuilder<Output>, OnBuilder<State, Event>, OneOfBuilder<Event>, OneOfCases<Event>,
    WhenBuilder<State, Event, Output>, WhenInferringBuilder<State>, Whens<State, Event, Output>,
    InferredWhens<State, Event, Output>, Listed<Event, Never>
  ),
  (
    any SynthesizedCodable.Type, Reduction<State>, Refusal, Overlap, CaseDescription,
    MachineDescription, PortDescription, EffectDescription
  ),
  (SuspendedTransition<State>, SelfContainedEvents<Event>),
  (
    After<State>, TimerDescription, RunningTimer, _TimerPresence, any _TransitionBlock.Type,
    _EventBlock,
    _ListedBlock, _TimerBlock, _JoinedBlock<_EventBlock, _TimerBlock>
  ),
  (
    Runtime<State, Event, Output>, AsyncStateMachineSequence<State, Event, Output>,
    SendOutcome<State>, ExecutionStrategy<State>, Feedback<State, Event>, GivenEvents<Event>,
    EffectClock,
    IdempotencyKey, EventPipe<Event>, Ports
  ),
  (ViewState<State, Event, Output>, ViewBinding<State>, ValueBinding<State>, Binding<State>),
  (
    ConcurrentValueSubject<State>, ConcurrentValueStateMachine<State>, ConstantStateMachine<State>,
    CompositeStateMachine<State>, StatePublisher<State>, UnstableStateError
  ),
  (any ConcurrentValueStateMachineProtocol<State>, any StateMachineProtocol<State>),
  (
    AsyncCompositeSequence<State>, AsyncProductSequence, CompositeComponent<State, Event>,
    AnyCompositeComponent, Component<State, Event>, AnyComponent, Composition, CompositionError,
    CompositeDeclaration, ComponentState, Product, ProductState, ProductEvent, ProductReduction,
    TupleProduct<State>, Projection<State>, ProjectionError, StateTypeDescription
  ),
  (
    Synchronization, SynchronizedEvent, SynchronizedEventError, SynchronizedMode, SynchronizedReply,
    SyncVector, BroadcastResult, RoutingError, TransactionID, InDoubtTransaction, Enabledness,
    BlockingParticipant, Exploration, ExplorationError
  ),
  (LoadState<State, Event>, LoadEvent<State, Event>, LoadFailure, Services, Injected<State>),
  (NavigationError, LinkFailure, NoParameters, ParameterMismatch, JSONValue),
  (Migration, Migration.Subject, Renamed),
  (
    TopologyClient, TopologyClientError, RequestOutcome, StateStream, StateChange, InstanceName,
    NodeShard,
    WatchedStates,
    NodeSummary, TransitionCounts, DurationCounts, EnabledEvents,
    EventEnabledness, EventBlocker, TopologyDirectory, TopologyErrors, NodeInformation, NodeStatus,
    PipeInformation, ProgramDescription, CompositeStateDescription, DeadLetter, Diagnostic,
    TextPosition, Durability, RefusalPolicy, JournalSpace, DiskSpace
  ),
  (Key, StyledLine, TextStyle, TerminalColor, TerminalSize),
  (TerminalFocus<Tab>, TerminalList, TerminalPicker<Tab>, TerminalTextField),
  (RemoteModel<State, Event>, PresentationType),
  (
    Topology, TopologyChecker, TopologyFile, TopologyReader, TopologySchema, TopologyVariables,
    NodeSpecification, PipeSpecification, CompositeSpecification, MonitorSpecification,
    NodeDependency, StateCondition, RestartPolicy, SourceMap, Timeouts, Backoff, ExploreSection,
    StateCombination, ExploredProperty, AllowedFinding, ValueSet, EventPattern, EffectPattern,
    HostLossPolicy,
    Deployment, Placement, DeploymentStorage, DeploymentFile
  ),
  (
    XCTStateMachine<State, Event, Output>, PipeRuntimeTestKit.ScenarioStep<State, Event, Output>,
    TransitionCoverage<State, Event, Output>, TransitionName, StateRecorder<State>, ManualClock,
    TopologyHarness, TopologyExpectationFailure, StatePattern, TopologyCoverage, TopologyStep
  )
)

private func names<Hosted: Machine, Model: HostableModel>(
  _: MachineModel<Hosted>.Type, _: ModelMachine<Model>.Type
) {}

private func names<Feature: FeatureType, Hosted: FeatureMachine>(
  _: Store<Feature>.Type, _: Hosted.Type, _: any Storable.Type
) {}

@MainActor
private func names<Loading: LoadableMachine>(
  _: LoadableViewModel<Loading>.Type, _: (any ObservableLoadableProtocol)?
) {}

private func names<Tab: TabType, Route: RouteType>(
  _: NavigationTabs<Tab>.Type, _: RouteStack<Route>.Type, _: NavigationStack<Route>.Type,
  _: NavigationRoot<Route, Route>.Type, _: DeepLink<Route>.Type, _: DeepLinks<Route>.Type
) {}

@MainActor
private func names<Coordinator: NavigationCoordinatable>(
  _: CoordinatorTransition<Coordinator, Void, Void>.Type, _: Root<Coordinator, Void>.Type,
  _: Route<Coordinator, Void, Void>.Type, _: CoordinatorRouter<Coordinator>.Type,
  _: CoordinatorStack<Coordinator>.Type, _: RouterStore.Type
) {}

private let functions: Set<String> = [
  "inject", "withTopology", "withManualClock", "Stay", "Ignore",
]

@Suite("Public names of the library")
struct PublicNames {
  @Test("No public name conflicts with a name of Foundation")
  func all() throws {
    var root = #filePath
    for _ in 0..<3 { root = FileSystem.parentDirectory(of: root) }
    let own = Set(words(of: try text(of: #filePath)))
    var seen = 0
    for module in [
      "PipeClient", "PipeJournal", "PipeMachines", "PipeNode", "PipeSupport", "PipeTopology",
      "PipeTransport", "PipeWire", "PipeRuntime", "PipeRuntimeTestKit",
    ] {
      for file in try sources(in: "\(root)/Sources/\(module)") {
        for line in try text(of: file).split(separator: "\n") where line.hasPrefix("public ") {
          guard let name = declaredName(words(of: String(line))) else { continue }
          seen += 1
          #expect(
            own.contains(name) || functions.contains(name) || name == "Pipe",
            "\(file): name '\(name)' here, so that it is known not to clash with Foundation's")
        }
      }
    }
    #expect(seen > 150)
  }

  /// Returns the name of the type, protocol, alias or function that a line declares.
  private func declaredName(_ words: [String]) -> String? {
    let kinds = ["struct", "class", "enum", "protocol", "actor", "typealias", "func"]
    guard let kind = words.firstIndex(where: kinds.contains), kind + 1 < words.count else {
      return nil
    }
    return words[kind + 1]
  }

  private func words(of text: String) -> [String] {
    text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(String.init)
  }

  private func sources(in directory: String) throws -> [String] {
    let paths = try #require(FileManager.default.enumerator(atPath: directory))
    return paths.compactMap { $0 as? String }.filter { $0.hasSuffix(".swift") }.sorted()
      .map { directory + "/" + $0 }
  }

  private func text(of path: String) throws -> String {
    try String(contentsOfFile: path, encoding: .utf8)
  }
}
