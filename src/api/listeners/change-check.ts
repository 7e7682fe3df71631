import { changePollIntervalMs } from "../../domain/limits.ts";
import { outsideTransaction } from "../../store/engine/statement-pool.ts";

/**
 * Runs a check after each change of the database, and at intervals in case a change was missed. One check runs at a time: changes
 * meanwhile lead to one more, however many they are.
 */
export class ChangeCheck {
  readonly #listen: (wake: () => void) => () => void;
  readonly #check: () => Promise<void>;
  #stopListening: (() => void) | null = null;
  #isChecking = false;
  #mustCheck = false;

  /**
   * @param listen calls back after changes, and returns how to end that
   * @param check an error leaves the work to the next check
   */
  constructor(listen: (wake: () => void) => () => void, check: () => Promise<void>) {
    this.#listen = listen;
    this.#check = check;
  }

  start(): void {
    if (this.#stopListening !== null) return;
    const wake = () => void this.run();
    const stopListening = this.#listen(wake);
    // The check is not only for the workspace whose request began it.
    const poll = outsideTransaction(() => setInterval(wake, changePollIntervalMs));
    this.#stopListening = () => {
      stopListening();
      clearInterval(poll);
    };
  }

  stop(): void {
    this.#stopListening?.();
    this.#stopListening = null;
  }

  async run(): Promise<void> {
    this.#mustCheck = true;
    if (this.#isChecking) return;
    this.#isChecking = true;
    while (this.#mustCheck && this.#stopListening !== null) {
      this.#mustCheck = false;
      await this.#check().catch(() => {});
    }
    this.#isChecking = false;
  }
}
