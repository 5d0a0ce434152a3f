import PipeSupport

/// The state of a composite, as a separate type instead of the tuple of the components' states.
///
/// ```swift
/// enum LiftState: CompositeState {
///   case waiting(floor: Int), moving, stopped
///
///   static let projection = Projection(LiftState.init(door:motor:))
///
///   init(door: ElevatorDoor.State, motor: ElevatorMotor.State) {
///     switch (door, motor) {
///     case (.stopped, _), (_, .stopped): self = .stopped
///     case (_, .moving): self = .moving
///     …
///     }
///   }
/// }
/// ```
public protocol CompositeState: MachineState, StateProtocol {
  /// The name by which a topology file refers to the type. Default: the name of the type.
  static var name: String { get }

  /// The function that makes the state from the components' states, in the order of the components.
  static var projection: Projection<Self> { get }
}

extension CompositeState {
  /// The name of the type, without its module.
  public static var name: String { TypeName.unqualified(Self.self) }
}

/// A function that makes one value from the states of several components. The states can also be
/// given as JSON.
public struct Projection<Whole>: Sendable {
  /// The Swift names of the components' state types.
  public let types: [String]
  /// The components' state types, each with its cases.
  package let components: [StateTypeDescription]
  private let make: @Sendable ([any MachineState]) throws(ProjectionError) -> Whole
  private let decode: @Sendable ([JSONValue]) throws(ProjectionError) -> Whole

  /// Makes a projection from a function, usually an initializer with a parameter for each
  /// component.
  public init<each State: MachineState>(
    _ project: @escaping @Sendable (repeat each State) -> Whole
  ) {
    var types: [String] = []
    var components: [StateTypeDescription] = []
    for type in repeat (each State).self {
      types.append("\(type)")
      components.append(StateTypeDescription(type))
    }
    let count = types.count
    self.types = types
    self.components = components
    // Reads all states before the call of `project`, so that an error prevents the call.
    // ``TupleReader`` explains why the reader is a separate class.
    make = { (states) throws(ProjectionError) in
      guard states.count == count else { throw .componentCount(states.count, expected: count) }
      let reader = ProjectionReader()
      for type in repeat (each State).self { reader.read(type, states[reader.readCount]) }
      if let problem = reader.problem { throw problem }
      return project(repeat reader.nextValue((each State).self))
    }
    decode = { (states) throws(ProjectionError) in
      guard states.count == count else { throw .componentCount(states.count, expected: count) }
      let reader = ProjectionReader()
      for type in repeat (each State).self { reader.decode(type, states[reader.readCount]) }
      if let problem = reader.problem { throw problem }
      return project(repeat reader.nextValue((each State).self))
    }
  }

  /// Makes the value from the components' states.
  /// - Throws: ``ProjectionError`` if the number or the types of the states do not match.
  public func callAsFunction(_ state: ProductState) throws(ProjectionError) -> Whole {
    try make(state.components.map(\.value))
  }

  /// Makes the value from the components' states, which are given as JSON.
  /// - Throws: ``ProjectionError`` if the number or the types of the states do not match.
  public func callAsFunction(json states: [JSONValue]) throws(ProjectionError) -> Whole {
    try decode(states)
  }
}

/// An error in the projection of states.
public enum ProjectionError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The number of components differs from the number that the projection expects.
  case componentCount(Int, expected: Int)
  /// The state of a component is not of the expected type.
  case type(String, index: Int, expected: String)

  /// A message that describes the error.
  public var description: String {
    switch self {
    case .componentCount(let count, let expected):
      "the projection expects the states of \(expected) components, not of \(count)"
    case .type(let type, let index, let expected):
      "component \(index + 1): the projection expects a state of type \(expected), not \(type)"
    }
  }
}

/// A reader that first reads all states of a projection, and then returns the states one by one.
private final class ProjectionReader {
  private(set) var problem: ProjectionError?
  private(set) var readCount = 0
  private var values: [any MachineState] = []
  private var returnedCount = 0

  func read<Value: MachineState>(_: Value.Type, _ state: any MachineState) {
    if let value = state as? Value {
      values.append(value)
    } else {
      fail(.type("\(type(of: state))", index: readCount, expected: "\(Value.self)"))
    }
    readCount += 1
  }

  func decode<Value: MachineState>(_: Value.Type, _ state: JSONValue) {
    do {
      values.append(
        try EnumCases<Value>.bareValue(named: state.string ?? "") ?? state.decode())
    } catch {
      fail(.type(state.text, index: readCount, expected: "\(Value.self)"))
    }
    readCount += 1
  }

  /// Returns the next state that was read. Called once for each state, if there is no error.
  func nextValue<Value: MachineState>(_: Value.Type) -> Value {
    defer { returnedCount += 1 }
    guard let value = values[returnedCount] as? Value else {
      preconditionFailure("The states of a projection are read and used with different types.")
    }
    return value
  }

  private func fail(_ error: ProjectionError) { problem = problem ?? error }
}

/// A state type: its name and its cases.
public struct StateTypeDescription: Codable, Hashable, Sendable {
  /// The Swift name of the type without the module, such as `LiftDoor.State`.
  public var type: String
  /// The cases.
  public var states: [CaseDescription]

  /// Makes a description.
  public init(type: String, states: [CaseDescription]) {
    self.type = type
    self.states = states
  }

  init<State: MachineState>(_ type: State.Type) {
    self.init(type: TypeName.of(type), states: EnumCases<State>.descriptions)
  }
}
