(() => {
const look = () => document.querySelectorAll(".scroll").forEach(box => {
  if (box.scrollWidth <= box.clientWidth + 1) delete box.dataset.more;
  else box.dataset.more = "more to the right: swipe, or use the arrow keys →"; });
for (const [what, where] of [["load", window], ["resize", window], ["toggle", document]])
  where.addEventListener(what, look, true);
look(); })();
