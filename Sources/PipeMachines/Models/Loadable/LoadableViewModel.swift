import Observation

/// The lifecycle events of a view.
@MainActor
public protocol LifecycleProtocol: AnyObject {
  /// Called when the view appears.
  func onAppear()
  /// Called when the view disappears.
  func onDisappear()
  /// Called when the application becomes active again. Default: calls ``onAppear()``.
  func onActive()
  /// Called when the application moves to the background. Default: calls ``onDisappear()``.
  func onBackground()
}

extension LifecycleProtocol {
  /// Calls `onAppear`.
  public func onActive() { onAppear() }
  /// Calls `onDisappear`.
  public func onBackground() { onDisappear() }
}

/// A view model of content that can be loaded.
@MainActor
public protocol ObservableLoadableProtocol: AnyObject, Observable {
  /// The type that identifies the content to load.
  associatedtype Parameter: Codable & Equatable & Sendable
  /// The type of the content.
  associatedtype Result: Codable & Sendable

  /// The state of the loading process.
  var state: LoadState<Parameter, Result> { get }

  /// Queues an event behind the events sent before it.
  func send(action: LoadEvent<Parameter, Result>)
}

/// A view model that runs a ``LoadableMachine`` and publishes the machine's state.
@MainActor
@Observable
public final class LoadableViewModel<Hosted: LoadableMachine>:
  LifecycleProtocol, ObservableLoadableProtocol
{
  /// The state of the loading process.
  public private(set) var state: LoadState<Hosted.Parameter, Hosted.Result>

  @ObservationIgnored private let sequence:
    AsyncStateMachineSequence<Hosted.State, Hosted.Event, Never>
  @ObservationIgnored private var followTask: Task<Void, Never>?

  /// Makes a view model in the state `start`, in which nothing is loaded.
  public init(_: Hosted.Type, parameters: Hosted.Parameters) {
    let sequence = AsyncStateMachineSequence(
      stateMachine: Hosted.stateMachine(parameters), runtime: Hosted.runtime(parameters, Ports()))
    self.sequence = sequence
    state = sequence.state
    followTask = Task { [weak self] in
      for await state in sequence {
        guard let self else { return }
        self.state = state
      }
    }
  }

  isolated deinit {
    followTask?.cancel()
    sequence.finish()
  }

  /// Queues an event behind the events sent before it.
  public func send(action: LoadEvent<Hosted.Parameter, Hosted.Result>) { sequence.post(action) }

  /// Loads the content.
  public func onAppear() { send(action: .onAppear) }

  /// Cancels the loading, and discards the content.
  public func onDisappear() { send(action: .onDisappear) }

  /// Loads the content.
  public func onActive() { send(action: .onActive) }

  /// Cancels the loading, and discards the content.
  public func onBackground() { send(action: .onBackground) }
}
