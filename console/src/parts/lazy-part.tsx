import { type ComponentType, use } from "react";

/**
 * Creates a component whose file is loaded when it is first shown, or earlier by `preload`, which the router calls when the
 * user points at its link.
 *
 * After an upgrade the server no longer has the files of an open page. When such a part has to be shown, the page reloads, once
 * for each part. Until the reload completes, React suspends instead of showing the failure, however often it renders. The
 * router's own lazy components throw the failure on the second render.
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

/** Records the failure for this tab and returns true the first time: a part that is missing after a reload is a real failure. */
function isFirst({ message }: Error): boolean {
  const key = `pierhead.reloaded:${message}`;
  if (window.sessionStorage.getItem(key) !== null) return false;
  window.sessionStorage.setItem(key, "1");
  return true;
}
