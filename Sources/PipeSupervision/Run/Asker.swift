/// Who has asked for something, and the number by which the answer is known there.
struct Asker {
  let peer: ControlPeer
  let id: UInt64
}
