/// Who has asked for something, and the number by which the answer is known there.
struct Asker {
  let peer: [UInt8]
  let id: UInt64
}
