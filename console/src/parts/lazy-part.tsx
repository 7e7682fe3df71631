import { type ComponentType, use } from "react";

/**
 * A component whose file is loaded when it is first shown, or asked for by `preload`, as the router does when somebody
 * points at its link.
 *
 * The parts of a console whose server was upgraded under it are gone. When one is to be shown, not before, the new page is
 * taken, once for each part; until it is there, the failure is not shown, however often React comes by. The router's own
 * lazy components throw it at the second time.
 */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>) {
  let loading: Promise<void> | undefined;
  let part: ComponentType<Props> | undefined;
  let failure: Error | undefined;
  let newPage: Promise<never> | undefined;
  const preload = () => {
    loading ??= load().then(
      (loaded) => {
        part = loaded;
      },
      (error: Error) => {
        failure = error;
      },
    );
    return loading;
  };
  function LazyPart(props: Props) {
    if (newPage === undefined && failure !== undefined && isFirst(failure)) {
      newPage = new Promise(() => {});
      window.location.reload();
    }
    if (newPage !== undefined) use(newPage);
    if (failure !== undefined) throw failure;
    if (part === undefined) use(preload());
    const Part = part as unknown as ComponentType<Props>;
    return <Part {...props} />;
  }
  return Object.assign(LazyPart, { preload });
}

/** Of this tab: a part that the new page does not find either is a failure. */
function isFirst({ message }: Error): boolean {
  const key = `pierhead.reloaded:${message}`;
  if (window.sessionStorage.getItem(key) !== null) return false;
  window.sessionStorage.setItem(key, "1");
  return true;
}
