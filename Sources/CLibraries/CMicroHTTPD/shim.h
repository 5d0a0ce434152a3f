#include <errno.h>
#include <microhttpd.h>

/// Starts a web server on the listening socket `descriptor`, or returns NULL. libmicrohttpd calls
/// `take` with each part of a request, `ended` after each request, and `connected` when a
/// connection opens or closes, each with `owner`. If `certificate` is not NULL, the server accepts
/// only TLS, with `certificate` and `key` in PEM. A C function, because Swift cannot call the
/// variadic MHD_start_daemon.
static inline struct MHD_Daemon *pr_start_web_server(
    int descriptor, MHD_AccessHandlerCallback take, MHD_RequestCompletedCallback ended,
    MHD_NotifyConnectionCallback connected, void *owner, unsigned int connections,
    size_t connection_bytes, unsigned int idle_seconds, const char *certificate, const char *key) {
  const struct MHD_OptionItem with_tls[] = {
      {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)certificate},
      {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)key},
      {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
      {MHD_OPTION_END, 0, NULL}};
  const struct MHD_OptionItem without[] = {{MHD_OPTION_END, 0, NULL}};
  // Some failures do not set errno, and the caller must not see an earlier value.
  errno = 0;
  return MHD_start_daemon(
      MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
          (certificate ? MHD_USE_TLS : 0),
      0, NULL, NULL, take, owner, MHD_OPTION_LISTEN_SOCKET, descriptor,
      MHD_OPTION_NOTIFY_COMPLETED, ended, owner, MHD_OPTION_NOTIFY_CONNECTION, connected, owner,
      MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      connection_bytes, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds, MHD_OPTION_ARRAY,
      certificate ? with_tls : without, MHD_OPTION_END);
}

/// Returns the socket of a connection, or -1 if libmicrohttpd does not report the socket. A C
/// function, because Swift cannot call the variadic MHD_get_connection_info.
static inline int pr_socket(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}
