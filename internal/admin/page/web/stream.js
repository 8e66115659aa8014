// The server's events keep the picture up to date. A stream ends while the page is hidden: a browser
// opens few connections to one server, and each stream holds one.

const silence = 12_000; // milliseconds after which a stream that sent "alive" before counts as lost

// Stream calls receive(name, data) for each event, and changed() when the connection is lost or back.
export class Stream {
  #source = null;
  #node = "";
  #receive;
  #changed;
  #isRegular = false; // the server sends "alive"
  #retry = 0;

  state = "connecting"; // or live, lost, asleep
  #seen = 0; // when the last event came

  constructor(receive, changed) {
    this.#receive = receive;
    this.#changed = changed;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#sleep() : this.#open()));
    setInterval(() => this.#check(), 1000);
  }

  // follow makes the stream one with the events of a node; "" for none.
  follow(node) {
    if (this.#source && this.#node === node) return;
    this.#node = node;
    this.#open();
  }

  #open() {
    clearTimeout(this.#retry);
    this.#source?.close();
    if (document.hidden) return;
    const source = new EventSource(this.#node ? `stream?node=${encodeURIComponent(this.#node)}` : "stream");
    this.#source = source;
    for (const name of ["overview", "summary", "rows", "node", "rates", "failure", "alive"]) {
      source.addEventListener(name, (event) => this.#take(name, event));
    }
    source.onerror = () => this.#lose();
  }

  #take(name, event) {
    this.#seen = Date.now();
    if (name === "alive") this.#isRegular = true;
    this.#setState("live");
    this.#receive(name, JSON.parse(event.data));
  }

  // The browser opens a stream again by itself unless the server refused it.
  #lose() {
    this.#setState("lost");
    if (this.#source.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#open(), 3000);
    this.#explain();
  }

  // explain asks for the reason of a refusal, which a stream does not have.
  async #explain() {
    try {
      const response = await fetch("data/plans");
      if (!response.ok) this.#receive("failure", await response.json());
    } catch {
      // There is no connection, and the page shows that already.
    }
  }

  #check() {
    if (this.state === "live" && this.#isRegular && Date.now() - this.#seen > silence) {
      this.#setState("lost");
      this.#open();
    }
  }

  #sleep() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
    this.#setState("asleep");
  }

  #setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.#changed();
  }
}
