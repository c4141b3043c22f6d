// Raised is an error that a server answers with.
export class Raised extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}
