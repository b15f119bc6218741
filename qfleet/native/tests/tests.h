// All tests, by the promise that each holds the kernel to. A test ends by throwing Failed.
#ifndef QFLEET_TESTS_TESTS_H_
#define QFLEET_TESTS_TESTS_H_

namespace qfleet {
namespace tests {

// `light` takes fewer and smaller circuits.
void ReferenceIsRight(bool light);
void SmallCircuits(bool light);
void WideCircuits(bool light);
void Spans(bool light);
void EdgesOfTheFormat(bool light);
void NothingIsLeftBehind(bool light);
void SeveralCallers(bool light);
void DamagedPrograms(bool light);
void HugeIndices(bool light);
void LargeState(bool light);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_TESTS_H_
