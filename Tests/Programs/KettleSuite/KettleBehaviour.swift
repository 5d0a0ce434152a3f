import Kettles
import PipeRuntime
import Testing

/// What a kettle does, in whatever style it is written, and wherever it runs.
package enum KettleBehaviour {
  /// A time to boil that does not pass in a test. Unit: milliseconds.
  private static let never = 3_600_000

  /// Events are taken in the order given.
  package static func order(_ style: KettleStyle, in place: some KettlePlace) async throws {
    let kettle = try await place.make(style, boilTime: never)
    for _ in 0..<50 {
      #expect(try await kettle.switchOn() == .heating)
      #expect(try await kettle.switchOff() == .off)
    }
  }

  /// Events that nobody waits for are taken in the order given, too.
  package static func posted(_ style: KettleStyle, in place: some KettlePlace) async throws {
    let kettle = try await place.make(style, boilTime: never)
    var states = kettle.states.makeAsyncIterator()
    for _ in 0..<50 {
      kettle.post(on: true)
      kettle.post(on: false)
    }
    kettle.post(on: true)
    // One that overtook another would be refused, and its state missing.
    for _ in 0..<50 {
      #expect(await states.next() == .off)
      #expect(await states.next() == .heating)
    }
    #expect(await states.next() == .off)
    #expect(await states.next() == .heating)
  }

  /// An event that the state does not take changes nothing.
  package static func refusal(_ style: KettleStyle, in place: some KettlePlace) async throws {
    let kettle = try await place.make(style, boilTime: never)
    #expect(try await kettle.switchOff() == .off)
    #expect(try await kettle.switchOn() == .heating)
    #expect(try await kettle.switchOn() == .heating)
    #expect(try await kettle.switchOff() == .off)

    let other = try await place.make(style, boilTime: place.boilTime)
    let boilTime = Duration.milliseconds(place.boilTime)
    #expect(try await other.switchOn() == .heating)
    try await place.pass(boilTime, of: boilTime, heating: other)
    #expect(await other.reaches(.hot))
    #expect(try await other.switchOn() == .hot)
  }

  /// Its effect takes its time, and leads to the next state.
  package static func effect(_ style: KettleStyle, in place: some KettlePlace) async throws {
    let kettle = try await place.make(style, boilTime: place.boilTime)
    let boilTime = Duration.milliseconds(place.boilTime)
    let begin = place.now
    #expect(try await kettle.switchOn() == .heating)
    try await place.pass(boilTime - .milliseconds(1), of: boilTime, heating: kettle)
    if place.isExact { #expect(try await kettle.switchOn() == .heating) }
    try await place.pass(.milliseconds(1), of: .milliseconds(1), heating: kettle)
    #expect(await kettle.reaches(.hot))
    #expect(place.now - begin >= boilTime)
  }

  /// Its effect is cancelled when its state is left.
  package static func cancellation(_ style: KettleStyle, in place: some KettlePlace) async throws {
    let kettle = try await place.make(style, boilTime: place.boilTime)
    let boilTime = Duration.milliseconds(place.boilTime)
    let part = Duration.milliseconds(place.boilTime * 3 / 5)
    #expect(try await kettle.switchOn() == .heating)
    try await place.pass(part, of: boilTime, heating: kettle)
    #expect(try await kettle.switchOff() == .off)
    // The new one begins anew, and the old one is gone.
    let begin = place.now
    #expect(try await kettle.switchOn() == .heating)
    try await place.pass(part, of: boilTime, heating: kettle)
    if place.isExact { #expect(try await kettle.switchOn() == .heating) }
    try await place.pass(boilTime - part, of: boilTime - part, heating: kettle)
    #expect(await kettle.reaches(.hot))
    #expect(place.now - begin >= boilTime)
  }
}
