// All tests. A test fails by throwing CheckFailed.
#ifndef QFLEET_TESTS_TESTS_H_
#define QFLEET_TESTS_TESTS_H_

namespace qfleet {
namespace tests {

// `light` uses fewer and smaller circuits.
void ReferenceGradients(bool light);
void SmallCircuits(bool light);
void WideCircuits(bool light);
void SubspaceCircuits(bool light);
void HeisenbergCircuits(bool light);
void HeisenbergChoice(bool light);
void EmptyPrograms(bool light);
void AbsentFactors(bool light);
void IndependentCalls(bool light);
void ConcurrentCalls(bool light);
void CorruptPrograms(bool light);
void ReferenceHvps(bool light);
void SmallHvps(bool light);
void WideHvps(bool light);
void EmptyHvps(bool light);
void HvpsEqualDifferences(bool light);
void ConcurrentHvps(bool light);
void CInterfaceHvps(bool light);
void CInterface(bool light);
void NetworkResults(bool light);
void CorruptNetworks(bool light);
void DensityResults(bool light);
void CorruptDensity(bool light);
void TrajectoryResults(bool light);
void BinomialMoments(bool light);
void CorruptTrajectories(bool light);
void Measurements(bool light);
void HalfTurnPhases(bool light);
void MatrixProducts(bool light);
void PauliWordMatrices(bool light);
void PulseProducts(bool light);
void PulseGradients(bool light);
void SplitStates(bool light);
void RandomCalls(bool light);
void LargeIndices(bool light);
void LargeState(bool light);
void KernelFaults(bool light);
void DeviceFailures(bool light);
void DeviceBanks(bool light);
void DeviceExchanges(bool light);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_TESTS_H_
