import PipeRuntime

/// The kettle as a loadable: the value to load is hot water.
package enum KettleLoader: LoadableMachine {
  package typealias Parameters = KettleParameters

  package struct Water: Codable, Hashable, Sendable {
    package var celsius: Int

    package init(celsius: Int) { self.celsius = celsius }
  }

  package static func first(_ parameters: KettleParameters) -> String { "water" }

  package static func load(
    _ parameter: String, _ parameters: KettleParameters
  ) async throws -> Water {
    try await parameters.boil()
    return Water(celsius: 100)
  }
}
