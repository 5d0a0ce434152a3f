import PipeMachines
import Testing

@Suite("Parameters of a machine")
struct MachineParametersTests {
  private struct Parameters: MachineParameters, Equatable {
    var floors = 5
    var level: UInt8 = 1
    var ratio = 0.5
    var names: [String] = []
    var limit: Int?

    func validate() throws(ParameterMismatch) {
      try require("floors", floors, atLeast: 1)
      guard ratio <= 1 else { throw ParameterMismatch("ratio", "must be 1 at most") }
    }
  }

  @Test("Missing parameters have their defaults, and given parameters are used")
  func taken() throws {
    #expect(try Parameters(parameters: [:]) == Parameters())
    let given: JSONValue = ["floors": 1, "level": 255, "names": ["a"], "limit": 3]
    let expected = Parameters(floors: 1, level: 255, names: ["a"], limit: 3)
    #expect(try Parameters(parameters: given) == expected)
  }

  @Test(
    "An invalid parameter causes an error with its name and the valid values",
    arguments: [
      (["floors": 0], "floors", "parameter 'floors' must be 1 or more, not 0"),
      (["ratio": 2, "level": 3], "ratio", "parameter 'ratio' must be 1 at most, not 2"),
      (
        ["level": -1, "floors": 3], "level",
        "parameter 'level' cannot be -1; write a value of type UInt8, from 0 to 255"
      ),
      (["level": 256], "level", "write a value of type UInt8, from 0 to 255"),
      (["floors": "many"], "floors", "cannot be \"many\"; write a value of type Int"),
      (["names": [1]], "names", "cannot be [1]; write a value of type Array<"),
      (["limit": .number(0.5)], "limit", "parameter 'limit' cannot be 0.5"),
      (
        ["flors": 3], "flors",
        "unknown parameter 'flors'; valid parameters are 'floors', 'level', 'limit', 'names', 'ratio'. "
          + "Did you mean 'floors'?"
      ),
      ([1], nil, "parameters must be an object"),
    ] as [(JSONValue, String?, String)])
  func refused(given: JSONValue, name: String?, message: String) throws {
    let error = try #require(throws: ParametersError.self) { try Parameters(parameters: given) }
    #expect(error.parameter == name)
    #expect(error.description.contains(message), "\(error)")
  }

  /// Parameters whose decoding throws.
  private struct Unreadable: MachineParameters {
    struct Unread: Error {}
    var floors = 5
    init() {}
    init(from decoder: any Decoder) throws { throw Unread() }
    func validate() throws(ParameterMismatch) { try require("floors", floors, atLeast: 6) }
  }

  @Test("If no parameters are given, nothing is decoded, and the defaults are validated")
  func defaults() throws {
    #expect(throws: ParametersError.invalidValue("floors", nil, "must be 6 or more")) {
      try Unreadable(parameters: [:])
    }
    #expect(throws: ParametersError.self) { try Unreadable(parameters: ["floors": 7]) }
  }
}
