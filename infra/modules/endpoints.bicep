// Broker and store inside the network, under their public names.
param prefix string
param location string
param tags object
param networkId string
param subnetId string
param namespaceId string
param accountId string

resource serviceBusZone 'Microsoft.Network/privateDnsZones@2024-06-01' = {
  name: 'privatelink.servicebus.windows.net'
  location: 'global'
  tags: tags
}

resource cosmosZone 'Microsoft.Network/privateDnsZones@2024-06-01' = {
  name: 'privatelink.documents.azure.com'
  location: 'global'
  tags: tags
}

resource serviceBusLink 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = {
  parent: serviceBusZone
  name: 'network'
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: { id: networkId }
  }
}

resource cosmosLink 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = {
  parent: cosmosZone
  name: 'network'
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: { id: networkId }
  }
}

resource serviceBus 'Microsoft.Network/privateEndpoints@2025-01-01' = {
  name: '${prefix}-servicebus'
  location: location
  tags: tags
  properties: {
    subnet: { id: subnetId }
    privateLinkServiceConnections: [
      {
        name: 'servicebus'
        properties: { privateLinkServiceId: namespaceId, groupIds: ['namespace'] }
      }
    ]
  }
}

resource cosmos 'Microsoft.Network/privateEndpoints@2025-01-01' = {
  name: '${prefix}-cosmos'
  location: location
  tags: tags
  properties: {
    subnet: { id: subnetId }
    privateLinkServiceConnections: [
      {
        name: 'cosmos'
        properties: { privateLinkServiceId: accountId, groupIds: ['Sql'] }
      }
    ]
  }
}

resource serviceBusName 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-01-01' = {
  parent: serviceBus
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      { name: 'servicebus', properties: { privateDnsZoneId: serviceBusZone.id } }
    ]
  }
}

resource cosmosName 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-01-01' = {
  parent: cosmos
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      { name: 'cosmos', properties: { privateDnsZoneId: cosmosZone.id } }
    ]
  }
}
