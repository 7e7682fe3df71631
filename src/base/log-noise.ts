/** Lines of package managers that name a file of the build host, advertise a version or count packages. They explain no failure. */
const noise =
  /^Progress: resolved \d|^Packages: [+-]\d|^\++$|^npm (?:error|ERR!)(?: A complete log of this run can be found in:| +\S*_logs\/\S*\.log$)|^npm (?:notice|error|ERR!)\s*$|^npm notice (?:New |Changelog:|To update run:|Run `?npm install -g)/;

/** Returns whether a log line explains no failure, so that it would only displace lines that do. */
export const isNoise = (line: string): boolean => noise.test(line);
