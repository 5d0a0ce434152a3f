import Observation

/// What a view tells of its life.
@MainActor
public protocol LifecycleProtocol: AnyObject {
  /// It is shown.
  func onAppear()
  /// It is gone.
  func onDisappear()
  /// The program is in front again. Default: as ``onAppear()``.
  func onActive()
  /// The program is no longer in front. Default: as ``onDisappear()``.
  func onBackground()
}

extension LifecycleProtocol {
  /// As `onAppear`.
  public func onActive() { onAppear() }
  /// As `onDisappear`.
  public func onBackground() { onDisappear() }
}

/// Something that is loaded, for a view to show.
@MainActor
public protocol ObservableLoadableProtocol: AnyObject, Observable {
  /// What says what is to be loaded.
  associatedtype Parameter: Codable & Equatable & Sendable
  /// What is loaded.
  associatedtype Result: Codable & Sendable

  /// Where the loading is.
  var state: LoadState<Parameter, Result> { get }

  /// Sends an event, after those sent before it.
  func send(action: LoadEvent<Parameter, Result>)
}

/// A loading machine for a view to show.
@MainActor
@Observable
public final class LoadableViewModel<Hosted: LoadableMachine>:
  LifecycleProtocol, ObservableLoadableProtocol
{
  /// Where the loading is.
  public private(set) var state: LoadState<Hosted.Parameter, Hosted.Result>

  @ObservationIgnored private let sequence:
    AsyncStateMachineSequence<Hosted.State, Hosted.Event, Never>
  @ObservationIgnored private var following: Task<Void, Never>?

  /// Makes one that has loaded nothing.
  public init(_: Hosted.Type, parameters: Hosted.Parameters) {
    let sequence = AsyncStateMachineSequence(
      stateMachine: Hosted.stateMachine(parameters), runtime: Hosted.runtime(parameters, Ports()))
    self.sequence = sequence
    state = sequence.state
    following = Task { [weak self] in
      for await state in sequence {
        guard let self else { return }
        self.state = state
      }
    }
  }

  isolated deinit {
    following?.cancel()
    sequence.finish()
  }

  /// Sends an event, after those sent before it.
  public func send(action: LoadEvent<Hosted.Parameter, Hosted.Result>) { sequence.post(action) }

  /// Has it loaded.
  public func onAppear() { send(action: .onAppear) }

  /// Cancels the loading, and forgets what is there.
  public func onDisappear() { send(action: .onDisappear) }

  /// Has it loaded.
  public func onActive() { send(action: .onActive) }

  /// Cancels the loading, and forgets what is there.
  public func onBackground() { send(action: .onBackground) }
}
