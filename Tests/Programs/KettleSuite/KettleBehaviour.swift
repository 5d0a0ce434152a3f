import Kettles
import PipeRuntime
import Testing

/// Checks of a kettle's behavior, for any style and any environment.
package enum KettleBehaviour {
  /// A boil time that is longer than any test. Unit: milliseconds.
  private static let endlessBoilTime = 3_600_000

  /// Checks that events are applied in the order in which they are sent.
  package static func order(_ style: KettleStyle, in environment: some KettleEnvironment)
    async throws
  {
    let kettle = try await environment.make(style, boilTime: endlessBoilTime)
    for _ in 0..<50 {
      #expect(try await kettle.switchOn() == .heating)
      #expect(try await kettle.switchOff() == .off)
    }
  }

  /// Checks that events are applied in order even if their sender does not wait.
  package static func posted(_ style: KettleStyle, in environment: some KettleEnvironment)
    async throws
  {
    let kettle = try await environment.make(style, boilTime: endlessBoilTime)
    var states = kettle.states.makeAsyncIterator()
    for _ in 0..<50 {
      kettle.post(on: true)
      kettle.post(on: false)
    }
    kettle.post(on: true)
    // An event that overtakes another event would be refused, so its state would be missing.
    for _ in 0..<50 {
      #expect(await states.next() == .off)
      #expect(await states.next() == .heating)
    }
    #expect(await states.next() == .off)
    #expect(await states.next() == .heating)
  }

  /// Checks that a refused event changes nothing.
  package static func refusal(_ style: KettleStyle, in environment: some KettleEnvironment)
    async throws
  {
    let kettle = try await environment.make(style, boilTime: endlessBoilTime)
    #expect(try await kettle.switchOff() == .off)
    #expect(try await kettle.switchOn() == .heating)
    #expect(try await kettle.switchOn() == .heating)
    #expect(try await kettle.switchOff() == .off)

    let other = try await environment.make(style, boilTime: environment.boilTime)
    let boilTime = Duration.milliseconds(environment.boilTime)
    #expect(try await other.switchOn() == .heating)
    try await environment.pass(boilTime, of: boilTime, heating: other)
    #expect(await other.reaches(.hot))
    #expect(try await other.switchOn() == .hot)
  }

  /// Checks that the effect takes the expected time, and causes the next state.
  package static func effect(_ style: KettleStyle, in environment: some KettleEnvironment)
    async throws
  {
    let kettle = try await environment.make(style, boilTime: environment.boilTime)
    let boilTime = Duration.milliseconds(environment.boilTime)
    let start = environment.now
    #expect(try await kettle.switchOn() == .heating)
    try await environment.pass(boilTime - .milliseconds(1), of: boilTime, heating: kettle)
    if environment.isExact { #expect(try await kettle.switchOn() == .heating) }
    try await environment.pass(.milliseconds(1), of: .milliseconds(1), heating: kettle)
    #expect(await kettle.reaches(.hot))
    #expect(environment.now - start >= boilTime)
  }

  /// Checks that the effect is cancelled when the kettle leaves the state.
  package static func cancellation(_ style: KettleStyle, in environment: some KettleEnvironment)
    async throws
  {
    let kettle = try await environment.make(style, boilTime: environment.boilTime)
    let boilTime = Duration.milliseconds(environment.boilTime)
    let partialTime = Duration.milliseconds(environment.boilTime * 3 / 5)
    #expect(try await kettle.switchOn() == .heating)
    try await environment.pass(partialTime, of: boilTime, heating: kettle)
    #expect(try await kettle.switchOff() == .off)
    // The new effect starts from the beginning, and the old effect has no consequences.
    let start = environment.now
    #expect(try await kettle.switchOn() == .heating)
    try await environment.pass(partialTime, of: boilTime, heating: kettle)
    if environment.isExact { #expect(try await kettle.switchOn() == .heating) }
    try await environment.pass(boilTime - partialTime, of: boilTime - partialTime, heating: kettle)
    #expect(await kettle.reaches(.hot))
    #expect(environment.now - start >= boilTime)
  }
}
