// swift-format-ignore-file
// The parts of Combine that PipeMachines uses, as Apple declares them, so that `tools/check-portable` can
// compile against them. The functions do nothing.

public protocol Publisher<Output, Failure> {
  associatedtype Output
  associatedtype Failure: Error
}

extension Publisher {
  public func compactMap<Other>(
    _ transform: @escaping (Output) -> Other?
  ) -> AnyPublisher<Other, Failure> { AnyPublisher() }

  public func handleEvents(
    receiveCancel: (() -> Void)? = nil
  ) -> AnyPublisher<Output, Failure> { AnyPublisher() }

  public func eraseToAnyPublisher() -> AnyPublisher<Output, Failure> { AnyPublisher() }
}

public struct AnyPublisher<Output, Failure: Error>: Publisher {
  init() {}
}

public struct Deferred<DeferredPublisher: Publisher>: Publisher {
  public typealias Output = DeferredPublisher.Output
  public typealias Failure = DeferredPublisher.Failure
  public init(createPublisher: @escaping () -> DeferredPublisher) {}
}

public enum Subscribers {
  public enum Completion<Failure: Error> { case finished, failure(Failure) }
}

public final class PassthroughSubject<Output, Failure: Error>: Publisher {
  public init() {}
  public func send(_ input: Output) {}
  public func send() where Output == Void {}
}

public final class CurrentValueSubject<Output, Failure: Error>: Publisher {
  public init(_ value: Output) {}
  public func send(_ input: Output) {}
  public func send(completion: Subscribers.Completion<Failure>) {}
}

public protocol ObservableObject: AnyObject {
  associatedtype ObjectWillChangePublisher: Publisher where ObjectWillChangePublisher.Failure == Never
  var objectWillChange: ObjectWillChangePublisher { get }
}
