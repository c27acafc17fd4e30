// The broker: one queue, two topics, and who may do what with each. The settings
// are held to emulator/config.json and to the code by make infra-check.
param name string
param location string
param tags object
@allowed(['Standard', 'Premium'])
param skuName string
@allowed(['Enabled', 'Disabled'])
param publicNetworkAccess string
param workerPrincipalId string
param orchestratorPrincipalId string
param projectorPrincipalId string
param scalerPrincipalId string
param workspaceId string

resource namespace 'Microsoft.ServiceBus/namespaces@2026-01-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: skuName
    tier: skuName
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    publicNetworkAccess: publicNetworkAccess
  }
}

resource tasks 'Microsoft.ServiceBus/namespaces/queues@2026-01-01' = {
  parent: namespace
  name: 'tasks'
  properties: {
    lockDuration: 'PT5M'
    maxDeliveryCount: 10
    defaultMessageTimeToLive: 'P14D'
    deadLetteringOnMessageExpiration: true
    // Saves work, and nothing relies on it.
    requiresDuplicateDetection: true
    duplicateDetectionHistoryTimeWindow: 'PT5M'
    requiresSession: false
    maxSizeInMegabytes: 5120
  }
}

resource taskEvents 'Microsoft.ServiceBus/namespaces/topics@2026-01-01' = {
  parent: namespace
  name: 'task-events'
  properties: {
    defaultMessageTimeToLive: 'P14D'
    // A completion that is published again must arrive again.
    requiresDuplicateDetection: false
    maxSizeInMegabytes: 5120
  }
}

resource orchestrator 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2026-01-01' = {
  parent: taskEvents
  name: 'orchestrator'
  properties: {
    lockDuration: 'PT5M'
    maxDeliveryCount: 10
    defaultMessageTimeToLive: 'P14D'
    deadLetteringOnMessageExpiration: true
    requiresSession: false
  }
}

resource reservations 'Microsoft.ServiceBus/namespaces/topics@2026-01-01' = {
  parent: namespace
  name: 'reservations'
  properties: {
    defaultMessageTimeToLive: 'P14D'
    requiresDuplicateDetection: false
    maxSizeInMegabytes: 5120
  }
}

resource inventory 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2026-01-01' = {
  parent: reservations
  name: 'inventory'
  properties: {
    lockDuration: 'PT5M'
    maxDeliveryCount: 10
    defaultMessageTimeToLive: 'P14D'
    deadLetteringOnMessageExpiration: true
    requiresSession: false
  }
}

var sender = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39')
var receiver = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0')
var owner = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '090c5cfd-751d-490a-894a-3ce6f1109419')

// The worker takes tasks, puts delayed copies of them back, and says how they ended.
resource workerReceivesTasks 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: tasks
  name: guid(tasks.id, workerPrincipalId, receiver)
  properties: { principalId: workerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: receiver }
}

resource workerSendsTasks 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: tasks
  name: guid(tasks.id, workerPrincipalId, sender)
  properties: { principalId: workerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: sender }
}

resource workerSendsEvents 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: taskEvents
  name: guid(taskEvents.id, workerPrincipalId, sender)
  properties: { principalId: workerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: sender }
}

// The orchestrator sends tasks, reads their dead letters, and hears how they ended.
resource orchestratorSendsTasks 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: tasks
  name: guid(tasks.id, orchestratorPrincipalId, sender)
  properties: { principalId: orchestratorPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: sender }
}

resource orchestratorReceivesTasks 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: tasks
  name: guid(tasks.id, orchestratorPrincipalId, receiver)
  properties: { principalId: orchestratorPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: receiver }
}

resource orchestratorReceivesEvents 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: orchestrator
  name: guid(orchestrator.id, orchestratorPrincipalId, receiver)
  properties: { principalId: orchestratorPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: receiver }
}

resource projectorReceivesReservations 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: inventory
  name: guid(inventory.id, projectorPrincipalId, receiver)
  properties: { principalId: projectorPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: receiver }
}

// The scaler asks for lengths by the management API, which Data Owner is documented
// to allow and no smaller role is. It has it on what it looks at, and nowhere else.
resource scalerSeesTasks 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: tasks
  name: guid(tasks.id, scalerPrincipalId, owner)
  properties: { principalId: scalerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: owner }
}

resource scalerSeesEvents 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: orchestrator
  name: guid(orchestrator.id, scalerPrincipalId, owner)
  properties: { principalId: scalerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: owner }
}

resource scalerSeesReservations 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: inventory
  name: guid(inventory.id, scalerPrincipalId, owner)
  properties: { principalId: scalerPrincipalId, principalType: 'ServicePrincipal', roleDefinitionId: owner }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: namespace
  name: 'workspace'
  properties: {
    workspaceId: workspaceId
    logs: [
      { category: 'OperationalLogs', enabled: true }
      { category: 'RuntimeAuditLogs', enabled: skuName == 'Premium' }
    ]
    metrics: [
      { category: 'AllMetrics', enabled: true }
    ]
  }
}

output namespaceId string = namespace.id
output namespaceName string = namespace.name
output host string = replace(replace(namespace.properties.serviceBusEndpoint, 'https://', ''), ':443/', '')
