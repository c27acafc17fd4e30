// One identity for each process, so that each can be given exactly what it needs,
// and one for the scaler, which must see the length of queues and nothing else.
param prefix string
param location string
param tags object

resource worker 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${prefix}-worker'
  location: location
  tags: tags
}

resource orchestrator 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${prefix}-orchestrator'
  location: location
  tags: tags
}

resource projector 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${prefix}-projector'
  location: location
  tags: tags
}

resource scaler 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${prefix}-scaler'
  location: location
  tags: tags
}

output workerId string = worker.id
output workerName string = worker.name
output workerClientId string = worker.properties.clientId
output workerPrincipalId string = worker.properties.principalId
output orchestratorId string = orchestrator.id
output orchestratorName string = orchestrator.name
output orchestratorClientId string = orchestrator.properties.clientId
output orchestratorPrincipalId string = orchestrator.properties.principalId
output projectorId string = projector.id
output projectorName string = projector.name
output projectorClientId string = projector.properties.clientId
output projectorPrincipalId string = projector.properties.principalId
output scalerId string = scaler.id
output scalerName string = scaler.name
output scalerClientId string = scaler.properties.clientId
output scalerPrincipalId string = scaler.properties.principalId
