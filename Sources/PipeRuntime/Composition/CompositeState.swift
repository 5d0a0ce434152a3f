/// What a composite shows of itself instead of the plain tuple of its components' states.
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
public protocol CompositeState: MachineState {
  /// The name that a topology file refers to it by. Default: the type's own name.
  static var name: String { get }

  /// How the state is made of those of the components, in their order.
  static var projection: Projection<Self> { get }

  /// Whether nothing is under way in this state. Default: `true`.
  var isStable: Bool { get }
}

extension CompositeState {
  /// The type's own name, without its module.
  public static var name: String { String(describing: Self.self) }

  /// Stable, as far as the state tells.
  public var isStable: Bool { true }
}

/// A function from the states of several components to one value, which also reads them from JSON.
public struct Projection<Whole>: Sendable {
  /// The Swift names of the components' state types.
  public let types: [String]
  /// The same types with their cases.
  package let components: [StateTypeDescription]
  private let make: @Sendable ([any MachineState]) throws(ProjectionError) -> Whole
  private let decode: @Sendable ([JSONValue]) throws(ProjectionError) -> Whole

  /// Projects by a function, usually an initializer with a parameter for each component.
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
    make = { (states) throws(ProjectionError) in
      guard states.count == count else { throw .count(states.count, expected: count) }
      var place = -1
      func next<Value: MachineState>(_: Value.Type) throws(ProjectionError) -> Value {
        place += 1
        guard let value = states[place] as? Value else {
          throw .type("\(type(of: states[place]))", place: place, expected: "\(Value.self)")
        }
        return value
      }
      return try project(repeat next((each State).self))
    }
    decode = { (states) throws(ProjectionError) in
      guard states.count == count else { throw .count(states.count, expected: count) }
      var place = -1
      func next<Value: MachineState>(_: Value.Type) throws(ProjectionError) -> Value {
        place += 1
        do {
          return try EnumCases<Value>.bareValue(named: states[place].string ?? "")
            ?? states[place].decode()
        } catch {
          throw .type(states[place].text, place: place, expected: "\(Value.self)")
        }
      }
      return try project(repeat next((each State).self))
    }
  }

  /// The value for these states.
  /// - Throws: ``ProjectionError`` where they are other states, or fewer or more.
  public func callAsFunction(_ state: ProductState) throws(ProjectionError) -> Whole {
    try make(state.components.map(\.value))
  }

  /// The value for states that come as JSON.
  /// - Throws: ``ProjectionError`` where they are other states, or fewer or more.
  public func callAsFunction(json states: [JSONValue]) throws(ProjectionError) -> Whole {
    try decode(states)
  }
}

/// Why states cannot be projected.
public enum ProjectionError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There are fewer or more components than the projection is for.
  case count(Int, expected: Int)
  /// A component has states of another type.
  case type(String, place: Int, expected: String)

  /// A sentence that tells it.
  public var description: String {
    switch self {
    case .count(let count, let expected):
      "the projection is for \(expected) components, and there are \(count)"
    case .type(let type, let place, let expected):
      "component \(place + 1): the projection is for \(expected), and this is \(type)"
    }
  }
}
