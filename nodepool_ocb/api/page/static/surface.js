/** A canvas in its pixels, in the colours of the page, and painted once in a frame. The matrix and the timeline draw on one. */

/** The colours of the style sheet, by letter and name. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const cells = Object.fromEntries([..."ERTBPA"].map((letter) => [letter, { back: of(`cell-${letter}`), text: of(`on-${letter}`) }]));
  return { cells, text: of("text"), quiet: of("quiet"), line: of("line"), back: of("back"), accent: of("accent"), raised: of("raised") };
}

/** The canvas in the size that it has on the page, without a drawing: its pen, width and height. */
export function cleared(canvas, palette) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = palette.back;
  pen.fillRect(0, 0, width, height);
  pen.textBaseline = "middle";
  return { pen, width, height };
}

/** A function that has `painted` called in the next frame, once for all calls before it. */
export function onceInAFrame(painted) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      painted();
    });
  };
}

/** Paint again after a change of sizes or colours, with `state.palette`. Gives a function that ends it. */
export function watchLooks(scroller, state, paint) {
  const resized = new ResizeObserver(paint);
  resized.observe(scroller);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const recolour = () => {
    state.palette = colours();
    paint();
  };
  dark.addEventListener("change", recolour);
  return () => {
    resized.disconnect();
    dark.removeEventListener("change", recolour);
  };
}
