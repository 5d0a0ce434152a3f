import CZMQ
import Glibc
import PipeWire

/// A ZeroMQ socket, owned by the one thread that uses it.
package final class Socket {
  /// The socket types in use.
  package enum Kind: Sendable {
    case dealer, router, publisher, subscriber, pair

    var code: Int32 {
      switch self {
      case .dealer: ZMQ_DEALER
      case .router: ZMQ_ROUTER
      case .publisher: ZMQ_XPUB
      case .subscriber: ZMQ_SUB
      case .pair: ZMQ_PAIR
      }
    }
  }

  /// The outcome of sending a message: `unroutable` means that a ROUTER has no connection to the
  /// peer.
  package enum SendResult: Sendable { case queued, wouldBlock, unroutable }

  let handle: UnsafeMutableRawPointer
  private let context: Context
  private let kind: Kind
  /// The gate that admits peers on other hosts and checks each message; `nil` if only this host's
  /// processes connect.
  @exclusivity(unchecked)
  var gate: PeerGate?
  /// The queue of messages that wait until their causes are recorded; `nil` if no message must
  /// wait.
  @exclusivity(unchecked)
  package var heldMessages: HeldMessages?
  /// The routing id of the last message's sender. Stored here only to reuse the array's storage.
  // Exclusivity is not checked at run time, because each message reads this property, and only the
  // loop's thread uses the socket.
  @exclusivity(unchecked)
  private var peerRoutingID: [UInt8] = []
  @exclusivity(unchecked)
  private var isOpen = true
  /// Whether a message may be waiting although the descriptor is not readable: any call on the
  /// socket may have consumed the descriptor's signal. `false` after a `receive` that found no
  /// message.
  @exclusivity(unchecked)
  private(set) var mayHaveInput = true {
    didSet { if mayHaveInput, !isInputNotified { notifyPossibleInput() } }
  }
  /// Called when a message may be waiting, unless `isInputNotified` is set.
  @exclusivity(unchecked)
  var onPossibleInput: (() -> Void)?
  /// Whether `onPossibleInput` was called. The loop clears this flag before it reads the socket.
  @exclusivity(unchecked)
  var isInputNotified = false
  /// Called before the socket is closed, while its descriptor is still valid.
  var onClose: (() -> Void)?
  /// Whether a message was received since this property was last set to `false`.
  @exclusivity(unchecked)
  var hasReceived = false
  /// A descriptor that becomes readable when a message may be waiting or can be sent again. Source:
  /// zmq_getsockopt(3), ZMQ_FD.
  let descriptor: Int32

  package init(_ kind: Kind, in context: Context) throws(TransportError) {
    guard let handle = zmq_socket(context.handle, kind.code) else { throw .lastError("zmq_socket") }
    self.handle = handle
    self.context = context
    self.kind = kind
    var descriptor: Int32 = -1
    var byteCount = MemoryLayout<Int32>.size
    let code = zmq_getsockopt(handle, ZMQ_FD, &descriptor, &byteCount)
    self.descriptor = descriptor
    guard code == 0 else { throw .lastError("zmq_getsockopt(ZMQ_FD)") }
    try set(ZMQ_LINGER, 0)
    // The interval between attempts to reconnect is short at first, so that a restarted peer is
    // found within milliseconds. The interval then grows.
    try set(ZMQ_RECONNECT_IVL, 5)
    try set(ZMQ_RECONNECT_IVL_MAX, 200)
    switch kind {
    case .router:
      try set(ZMQ_ROUTER_MANDATORY, 1)
      try set(ZMQ_ROUTER_HANDOVER, 1)
    case .publisher:
      // Passes on repeated subscriptions, too: a repeated subscription requests the last value.
      try set(ZMQ_XPUB_VERBOSE, 1)
    case .dealer, .subscriber, .pair: break
    }
  }

  deinit { close() }

  func notifyPossibleInput() {
    guard let onPossibleInput else { return }
    isInputNotified = true
    onPossibleInput()
  }

  /// Stops the monitoring of the socket's connections.
  func stopMonitoring() {
    if isOpen { zmq_socket_monitor(handle, nil, 0) }
  }

  /// Closes the socket. Queued messages are sent within the linger period.
  package func close() {
    guard isOpen else { return }
    isOpen = false
    heldMessages = nil
    onClose?()
    zmq_close(handle)
  }

  package func set(_ option: Int32, _ value: Int32) throws(TransportError) {
    var value = value
    guard zmq_setsockopt(handle, option, &value, MemoryLayout<Int32>.size) == 0 else {
      throw .lastError("zmq_setsockopt(\(option))")
    }
  }

  package func set(_ option: Int32, int64 value: Int64) throws(TransportError) {
    var value = value
    guard zmq_setsockopt(handle, option, &value, MemoryLayout<Int64>.size) == 0 else {
      throw .lastError("zmq_setsockopt(\(option))")
    }
  }

  package func set(_ option: Int32, _ value: some Collection<UInt8>) throws(TransportError) {
    let bytes = Array(value)
    guard zmq_setsockopt(handle, option, bytes, bytes.count) == 0 else {
      throw .lastError("zmq_setsockopt(\(option))")
    }
  }

  /// Sets how long after `close` the socket still tries to send queued messages. Unit:
  /// milliseconds.
  package func setLinger(milliseconds: Int32) { try? set(ZMQ_LINGER, milliseconds) }

  /// Sets the routing id by which a ROUTER at the other end knows this socket. Call this before
  /// `connect`.
  package func setRoutingID(_ id: String) throws(TransportError) {
    try set(ZMQ_ROUTING_ID, Array(id.utf8))
  }

  /// Sets the maximum number of queued messages in each direction; 0 means no limit. Unit:
  /// messages.
  package func setHighWaterMark(_ messages: Int32) throws(TransportError) {
    try set(ZMQ_SNDHWM, messages)
    try set(ZMQ_RCVHWM, messages)
  }

  /// Sets the maximum size of a received message. A peer that sends a larger message is
  /// disconnected.
  package func setMaximumMessage(byteCount: Int64) throws(TransportError) {
    try set(ZMQ_MAXMSGSIZE, int64: byteCount)
  }

  /// Refuses messages while no connection is complete, instead of queueing them for later.
  package func sendOnlyWhenConnected() throws(TransportError) { try set(ZMQ_IMMEDIATE, 1) }

  /// Subscribes to all messages that begin with the topic. A repeated subscription makes the
  /// publisher send its last value again.
  package func subscribe(to topic: [UInt8]) throws(TransportError) {
    try set(ZMQ_SUBSCRIBE, topic)
  }

  package func bind(_ endpoint: String) throws(TransportError) {
    mayHaveInput = true
    guard zmq_bind(handle, endpoint) == 0 else { throw .lastError("zmq_bind", endpoint: endpoint) }
  }

  /// Binds to an `ipc://` endpoint whose file stays when the socket is closed.
  ///
  /// After a plain `bind`, a thread of libzmq deletes the file some time after the socket is
  /// closed. A new socket that is already bound to the same path would lose its file.
  package func bindKeepingFile(_ endpoint: String) throws(TransportError) {
    let listener = try ListeningDescriptor.make(at: endpoint)
    try set(ZMQ_USE_FD, listener)
    try bind(endpoint)
  }

  package func connect(_ endpoint: String) throws(TransportError) {
    mayHaveInput = true
    guard zmq_connect(handle, endpoint) == 0 else {
      throw .lastError("zmq_connect", endpoint: endpoint)
    }
  }

  /// Disconnects from an endpoint that was passed to `connect`. Messages queued for the peer are
  /// lost.
  package func disconnect(_ endpoint: String) {
    mayHaveInput = true
    zmq_disconnect(handle, endpoint)
  }

  // MARK: Sending

  /// Sends one frame. On a ROUTER, `peer` is the receiver's routing id. The result is also `queued`
  /// if the frame waits for its causes in ``heldMessages``.
  @discardableResult
  package func send(
    _ header: FrameHeader, body: [UInt8] = [], to peer: [UInt8]? = nil
  ) -> SendResult {
    if let heldMessages, heldMessages.holdBack(header, body, to: peer, of: self) { return .queued }
    return transmit(header, body, to: peer)
  }

  @discardableResult
  func transmit(_ header: FrameHeader, _ body: [UInt8], to peer: [UInt8]?) -> SendResult {
    if let peer {
      let result = sendPart(peer, more: true)
      guard case .queued = result else { return result }
    }
    var message = zmq_msg_t()
    zmq_msg_init_size(&message, FrameHeader.byteCount + body.count)
    let buffer = UnsafeMutableRawBufferPointer(
      start: zmq_msg_data(&message), count: FrameHeader.byteCount + body.count)
    header.write(into: buffer)
    body.withUnsafeBytes {
      UnsafeMutableRawBufferPointer(rebasing: buffer[FrameHeader.byteCount...]).copyMemory(from: $0)
    }
    return finish(&message, more: false)
  }

  /// Sends one part of a message.
  @discardableResult
  package func sendPart(_ bytes: [UInt8], more: Bool) -> SendResult {
    var message = zmq_msg_t()
    zmq_msg_init_size(&message, bytes.count)
    bytes.withUnsafeBytes {
      UnsafeMutableRawBufferPointer(start: zmq_msg_data(&message), count: bytes.count)
        .copyMemory(from: $0)
    }
    return finish(&message, more: more)
  }

  private func finish(_ message: inout zmq_msg_t, more: Bool) -> SendResult {
    guard isOpen else {
      zmq_msg_close(&message)
      return .wouldBlock
    }
    mayHaveInput = true
    while true {
      if zmq_msg_send(&message, handle, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0 {
        return .queued
      }
      let code = zmq_errno()
      if code == EINTR { continue }
      zmq_msg_close(&message)
      return code == EHOSTUNREACH ? .unroutable : .wouldBlock
    }
  }

  // MARK: Receiving

  /// Reads one message, if any is waiting, and passes its last part to `body`.
  ///
  /// On a ROUTER the first part is the sender's routing id. The bytes are valid only during the
  /// call of `body`.
  /// - Returns: Whether a message was read.
  package func receive(_ body: (_ peer: [UInt8], UnsafeRawBufferPointer) -> Void) -> Bool {
    peerRoutingID.removeAll(keepingCapacity: true)
    var parts = 0
    return receiveParts { bytes, more in
      if !more {
        body(peerRoutingID, bytes)
      } else if parts == 0 {
        peerRoutingID.append(contentsOf: bytes)
      }
      parts += 1
    }
  }

  /// Reads one message, if any is waiting, and passes its first part to `body`. Do not use this on
  /// a socket with a gate: the gate checks a message only at its last part.
  package func receiveFirst(_ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
    var parts = 0
    return receiveParts { bytes, _ in
      if parts == 0 { body(bytes) }
      parts += 1
    }
  }

  /// Reads all parts of one message; `nil` if no message is waiting.
  func receiveAll() -> [[UInt8]]? {
    var parts: [[UInt8]] = []
    return receiveParts({ bytes, _ in parts.append(Array(bytes)) }) ? parts : nil
  }

  private func receiveParts(_ part: (UnsafeRawBufferPointer, _ more: Bool) -> Void) -> Bool {
    // The call of `part` may close this socket.
    while isOpen {
      var message = zmq_msg_t()
      zmq_msg_init(&message)
      defer { zmq_msg_close(&message) }
      while zmq_msg_recv(&message, handle, ZMQ_DONTWAIT) < 0 {
        if zmq_errno() == EINTR { continue }
        mayHaveInput = false
        return false
      }
      mayHaveInput = true
      hasReceived = true
      let bytes = UnsafeRawBufferPointer(
        start: zmq_msg_data(&message), count: zmq_msg_size(&message))
      let more = zmq_msg_more(&message) != 0
      if !more, let gate, !gate.admits(&message, as: kind == .router ? peerRoutingID : nil) {
        return true
      }
      part(bytes, more)
      if !more { return true }
    }
    return false
  }
}
