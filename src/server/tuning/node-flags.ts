/**
 * What Node is started with to run a server. Objects of the moment get 2 times 8 MiB; left alone, V8 lets them have up to 64 MB,
 * took 15 MB more of that in the burst of a start, and gave none of it back. The same option among the arguments of Node counts
 * more than this one, in NODE_OPTIONS less.
 */
export const serverNodeFlags = ["--max-semi-space-size=8"];
