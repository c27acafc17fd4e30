// Images: pushed by whoever deploys, pulled by identity.
param name string
param location string
param tags object
param workerPrincipalId string
param orchestratorPrincipalId string
param projectorPrincipalId string

resource registry 'Microsoft.ContainerRegistry/registries@2025-11-01' = {
  name: name
  location: location
  tags: tags
  sku: { name: 'Standard' }
  properties: {
    adminUserEnabled: false
    anonymousPullEnabled: false
  }
}

var pull = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '7f951dda-4ed3-4680-a7ca-43fe172d538d')

resource workerPulls 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: registry
  name: guid(registry.id, workerPrincipalId, pull)
  properties: { principalId: workerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: pull }
}

resource orchestratorPulls 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: registry
  name: guid(registry.id, orchestratorPrincipalId, pull)
  properties: { principalId: orchestratorPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: pull }
}

resource projectorPulls 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: registry
  name: guid(registry.id, projectorPrincipalId, pull)
  properties: { principalId: projectorPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: pull }
}

output name string = registry.name
output loginServer string = registry.properties.loginServer
