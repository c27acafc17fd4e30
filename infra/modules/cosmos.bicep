// The store: one account that takes writes in one region, four containers, and who
// may do what with each. Keys are switched off: data is reached by identity alone,
// and identities cannot create containers, so they are made here.
param name string
param location string
param tags object
@allowed(['serverless', 'autoscale'])
param capacity string
param maxThroughput int
@allowed(['Enabled', 'Disabled'])
param publicNetworkAccess string
param workerPrincipalId string
param orchestratorPrincipalId string
param projectorPrincipalId string
param operatorPrincipalId string
param workspaceId string

resource account 'Microsoft.DocumentDB/databaseAccounts@2026-03-15' = {
  name: name
  location: location
  tags: tags
  kind: 'GlobalDocumentDB'
  properties: {
    databaseAccountOfferType: 'Standard'
    capabilities: capacity == 'serverless' ? [{ name: 'EnableServerless' }] : []
    consistencyPolicy: { defaultConsistencyLevel: 'Session' }
    locations: [
      { locationName: location, failoverPriority: 0, isZoneRedundant: false }
    ]
    // Two regions that both take writes would both grant one claim.
    enableMultipleWriteLocations: false
    // Nothing fails over by itself: docs/operations.md says what is lost when it does.
    enableAutomaticFailover: false
    disableLocalAuth: true
    disableKeyBasedMetadataWriteAccess: true
    minimalTlsVersion: 'Tls12'
    publicNetworkAccess: publicNetworkAccess
    backupPolicy: {
      type: 'Continuous'
      continuousModeProperties: { tier: 'Continuous7Days' }
    }
  }
}

resource database 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2026-03-15' = {
  parent: account
  name: 'oneeffect'
  properties: {
    resource: { id: 'oneeffect' }
  }
}

var throughput = capacity == 'serverless' ? {} : { autoscaleSettings: { maxThroughput: maxThroughput } }

// Expiry on, without a default: every claim says how long it lives.
resource claims 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'claims'
  properties: {
    resource: {
      id: 'claims'
      partitionKey: { paths: ['/id'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: []
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource executions 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'executions'
  properties: {
    resource: {
      id: 'executions'
      partitionKey: { paths: ['/executionId'], kind: 'Hash', version: 2 }
      defaultTtl: 7776000
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [{ path: '/kind/?' }, { path: '/status/?' }]
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource inventory 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'inventory'
  properties: {
    resource: {
      id: 'inventory'
      partitionKey: { paths: ['/sku'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: []
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource webhooks 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'webhooks'
  properties: {
    resource: {
      id: 'webhooks'
      partitionKey: { paths: ['/resource'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: []
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

// Built-in Data Contributor and Data Reader of this account.
var contributor = '${account.id}/sqlRoleDefinitions/00000000-0000-0000-0000-000000000002'
var reader = '${account.id}/sqlRoleDefinitions/00000000-0000-0000-0000-000000000001'

// Clients read the account's regions before anything else. This role is that, for
// the whole account, and no item of it.
resource discovery 'Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions@2026-03-15' = {
  parent: account
  name: guid(account.id, 'discovery')
  properties: {
    roleName: 'oneeffect discovery'
    type: 'CustomRole'
    assignableScopes: [account.id]
    permissions: [
      { dataActions: ['Microsoft.DocumentDB/databaseAccounts/readMetadata'] }
    ]
  }
}

resource workerDiscovers 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, workerPrincipalId, 'discovery')
  properties: { principalId: workerPrincipalId, roleDefinitionId: discovery.id, scope: account.id }
}

resource orchestratorDiscovers 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, orchestratorPrincipalId, 'discovery')
  properties: { principalId: orchestratorPrincipalId, roleDefinitionId: discovery.id, scope: account.id }
}

resource projectorDiscovers 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, projectorPrincipalId, 'discovery')
  properties: { principalId: projectorPrincipalId, roleDefinitionId: discovery.id, scope: account.id }
}

resource workerWritesClaims 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, workerPrincipalId, 'claims')
  properties: { principalId: workerPrincipalId, roleDefinitionId: contributor, scope: '${account.id}/dbs/oneeffect/colls/claims' }
  dependsOn: [claims]
}

resource orchestratorWritesClaims 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, orchestratorPrincipalId, 'claims')
  properties: { principalId: orchestratorPrincipalId, roleDefinitionId: contributor, scope: '${account.id}/dbs/oneeffect/colls/claims' }
  dependsOn: [claims]
}

resource orchestratorWritesExecutions 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, orchestratorPrincipalId, 'executions')
  properties: { principalId: orchestratorPrincipalId, roleDefinitionId: contributor, scope: '${account.id}/dbs/oneeffect/colls/executions' }
  dependsOn: [executions]
}

resource projectorWritesInventory 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, projectorPrincipalId, 'inventory')
  properties: { principalId: projectorPrincipalId, roleDefinitionId: contributor, scope: '${account.id}/dbs/oneeffect/colls/inventory' }
  dependsOn: [inventory]
}

resource projectorWritesWebhooks 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, projectorPrincipalId, 'webhooks')
  properties: { principalId: projectorPrincipalId, roleDefinitionId: contributor, scope: '${account.id}/dbs/oneeffect/colls/webhooks' }
  dependsOn: [webhooks]
}

// Whoever operates it looks, and changes nothing behind the processes' backs.
resource operatorReads 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = if (!empty(operatorPrincipalId)) {
  parent: account
  name: guid(account.id, operatorPrincipalId, 'oneeffect')
  properties: { principalId: operatorPrincipalId, roleDefinitionId: reader, scope: '${account.id}/dbs/oneeffect' }
  dependsOn: [database]
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: account
  name: 'workspace'
  properties: {
    workspaceId: workspaceId
    logAnalyticsDestinationType: 'Dedicated'
    logs: [
      { category: 'ControlPlaneRequests', enabled: true }
      { category: 'PartitionKeyRUConsumption', enabled: true }
    ]
    metrics: [
      { category: 'Requests', enabled: true }
    ]
  }
}

output accountId string = account.id
output accountName string = account.name
output endpoint string = account.properties.documentEndpoint
